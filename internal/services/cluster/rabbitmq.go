package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// A RabbitMQ is three nodes. A topic is a quorum queue on the default exchange.
type RabbitMQ struct {
	nodes
	ctl    string
	mapper *Node // Erlang's epmd; otherwise nodes would start one that keeps running
}

var _ Cluster = (*RabbitMQ)(nil)

func startRabbit(ctx context.Context, o Options) (*RabbitMQ, error) {
	r := &RabbitMQ{}
	programs, err := o.installed(ctx, "rabbitmq", "rabbitmq-server", "rabbitmqctl", "epmd")
	if err != nil {
		return r, err
	}
	ports, err := freePorts(ctx, 3*Size+1)
	if err != nil {
		return r, err
	}
	own, proxies, distribution, mapper := ports[:Size], ports[Size:2*Size], ports[2*Size:3*Size], port(ports[3*Size])
	r.ctl = programs[1]
	if r.mapper, err = newNode(o.Dir, "epmd", "", ""); err != nil {
		return r, err
	}
	r.mapper.command = []string{programs[2], "-address", "127.0.0.1", "-port", mapper}
	for i := range Size {
		n, err := newNode(o.Dir, fmt.Sprintf("n%d@localhost", i), own[i], proxies[i])
		if err != nil {
			return r, err
		}
		r.all = append(r.all, n)
		n.URL = "amqp://guest:guest@" + n.Address + "/"
		if err := n.configureRabbit(o, port(distribution[i]), mapper); err != nil {
			return r, err
		}
		n.command = []string{programs[0]}
		n.ready = func(ctx context.Context) error {
			return n.await(ctx, func() bool {
				conn, err := amqp091.Dial(n.URL)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
		}
	}
	r.url = "amqp://guest:guest@" + r.proxies() + "/"
	return r, r.assemble(ctx)
}

func (n *Node) configureRabbit(o Options, distribution, mapper string) error {
	_, err := n.write(".erlang.cookie", "cluster")
	plugins, err2 := n.write("plugins", "[].")
	environment, err3 := n.write("env.conf")
	config, err4 := n.write("rabbitmq.conf", append([]string{
		"cluster_formation.peer_discovery_backend = classic_config",
		"cluster_formation.classic_config.nodes.1 = n0@localhost",
		// A node that was frozen for a long time rejoins the others by itself.
		"disk_free_limit.absolute = 100MB", "net_ticktime = 10", "cluster_partition_handling = " + autoheal, "",
	}, o.More...)...)
	n.env = []string{
		"HOME=" + n.dir, "RABBITMQ_NODENAME=" + n.Name, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + port(n.Address),
		"RABBITMQ_DIST_PORT=" + distribution, "ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + n.dir, "ERL_CRASH_DUMP=" + n.dir + "/crash", "RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + n.dir + "/pid",
		"RABBITMQ_CONF_ENV_FILE=" + environment, "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_CONFIG_FILE=" + config,
		// Without an intermediate shell that would outlive the node.
		"RABBITMQ_ALLOW_INPUT=true",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1} +sbwt none " +
			"+sbwtdcpu none +sbwtdio none",
	}
	return errors.Join(err, err2, err3, err4)
}

// assemble starts the nodes. If they all started at once, they would wait for each other at random.
func (r *RabbitMQ) assemble(ctx context.Context) error {
	if err := r.mapper.Start(); err != nil {
		return err
	}
	for i, n := range r.all {
		if err := n.Start(); err != nil {
			return err
		}
		if i == 1 {
			continue // the others join concurrently
		}
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	if err := r.all[1].Ready(ctx); err != nil {
		return err
	}
	_, err := r.control(ctx, r.all[0], "await_online_nodes", fmt.Sprint(Size))
	return err
}

// control runs rabbitmqctl on a node.
func (r *RabbitMQ) control(ctx context.Context, n *Node, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.ctl, args...)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// eval evaluates an Erlang expression on the first running node.
func (r *RabbitMQ) eval(ctx context.Context, format string, args ...any) (string, error) {
	for _, n := range r.up() {
		return r.control(ctx, n, "eval", fmt.Sprintf(format, args...))
	}
	return "", errors.New("no node runs")
}

// Create implements [Cluster]. The queue's leader is the node on which the queue is declared.
func (r *RabbitMQ) Create(_ context.Context, topic string, leader, replicas int) error {
	conn, err := amqp091.Dial(r.all[leader].URL)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err == nil {
		_, err = channel.QueueDeclare(topic, true, false, false, false,
			amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum, "x-quorum-initial-group-size": replicas})
	}
	if err != nil {
		return fmt.Errorf("declare queue %s: %w", topic, err)
	}
	return nil
}

// Move implements [Cluster].
func (r *RabbitMQ) Move(ctx context.Context, topic string, to int) error {
	name := member(topic)
	return until(ctx, fmt.Sprintf("node %d leads %s", to, topic), func() (bool, error) {
		out, err := r.eval(ctx, "_ = ra:transfer_leadership(ra_leaderboard:lookup_leader(%s), {%s, '%s'}), {_, L} = "+
			"ra_leaderboard:lookup_leader(%s), L.",
			name, name, r.all[to].Name, name)
		return strings.Trim(out, "'") == r.all[to].Name, err
	})
}

// Try implements [Cluster].
func (r *RabbitMQ) Try(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := errors.New("no node runs")
	for _, n := range r.up() {
		if err = try(ctx, n, topic); err == nil {
			return nil
		}
	}
	return err
}

func try(ctx context.Context, n *Node, topic string) error {
	conn, err := amqp091.DialConfig(n.URL, amqp091.Config{Dial: amqp091.DefaultDial(time.Second)})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }()
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return err
	}
	confirm, err := channel.PublishWithDeferredConfirm("", topic, true, false,
		amqp091.Publishing{DeliveryMode: amqp091.Persistent})
	if err != nil {
		return err
	}
	if taken, err := confirm.WaitContext(ctx); err != nil || !taken {
		return errors.Join(err, errors.New("not confirmed"))
	}
	return nil
}

// member returns the name of the Raft members of a topic's queue.
func member(topic string) string { return "'%2F_" + topic + "'" }

// InSync implements [Cluster]: all members of the queues run.
func (r *RabbitMQ) InSync(ctx context.Context, topics ...string) bool {
	var members []string
	for _, topic := range topics {
		members = append(members, member(topic))
	}
	out, err := r.eval(ctx,
		"length(rabbit_nodes:all_running()) =:= %d andalso lists:all(fun(Q) -> lists:all(fun({_, N}) -> "+
			"is_pid(rpc:call(N, erlang, whereis, [Q])) end, ra_leaderboard:lookup_members(Q)) end, [%s]).", Size,
		strings.Join(members, ", "))
	return err == nil && out == "true"
}

// What a node does that sees less than half of the others.
const (
	PauseMinority  = "pause_minority"
	IgnoreMinority = "ignore"
	autoheal       = "autoheal"
)

// CutOff cuts a node off from the others until Rejoin, and sets what it does then. Clients can reach all nodes.
func (r *RabbitMQ) CutOff(ctx context.Context, node int, handling string) error {
	if err := r.minority(ctx, handling); err != nil {
		return err
	}
	return r.partition(ctx, node)
}

// Rejoin restarts a node that was cut off, without which it would not join the others.
func (r *RabbitMQ) Rejoin(ctx context.Context, node int) error {
	n := r.all[node]
	n.Kill()
	if err := n.Restart(ctx); err != nil {
		return err
	}
	return r.minority(ctx, autoheal)
}

func (r *RabbitMQ) minority(ctx context.Context, handling string) error {
	_, err := r.eval(ctx, "rpc:multicall(application, set_env, [rabbit, cluster_partition_handling, %s]).", handling)
	return err
}

func (r *RabbitMQ) partition(ctx context.Context, node int) error {
	if err := r.each(ctx, node, "erlang:set_cookie('%s', cut), erlang:disconnect_node('%s')."); err != nil {
		return err
	}
	return until(ctx, r.all[node].Name+" is cut off", func() (bool, error) {
		for i, n := range r.all {
			if i == node {
				continue
			}
			if out, err := r.control(ctx, n, "eval",
				fmt.Sprintf("lists:member('%s', nodes()).", r.all[node].Name)); err != nil || out != "false" {
				return false, err
			}
		}
		return true, nil
	})
}

// each evaluates an expression on a node for each of the other nodes.
func (r *RabbitMQ) each(ctx context.Context, node int, expression string) error {
	var all strings.Builder
	for i, n := range r.all {
		if i != node {
			fmt.Fprintf(&all, strings.TrimSuffix(expression, ".")+", ", n.Name, n.Name)
		}
	}
	_, err := r.control(ctx, r.all[node], "eval", all.String()+"ok.")
	return err
}

// Close implements [Cluster].
func (r *RabbitMQ) Close() {
	r.close()
	if r.mapper != nil {
		r.mapper.close()
	}
}
