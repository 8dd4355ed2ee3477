package plan

// A Kind is a way to disturb the system.
type Kind string

// The clean kinds. After them nothing may be delivered twice.
const (
	Stop       Kind = "stop"        // SIGTERM, and a new process after a while
	Scale      Kind = "scale"       // another number of replicas: those that stop get SIGTERM, shards move
	SlowBroker Kind = "slow-broker" // everything to and from the broker takes longer
	SlowData   Kind = "slow-data"   // everything to and from the database takes longer
	LongOpen   Kind = "long-open"   // a transaction stays open, pins xmin, and commits its row very late
	Burst      Kind = "burst"       // one transaction of many rows
	CutWriters Kind = "cut-writers" // writers lose their sessions and cannot know whether their rows were committed
	Pause      Kind = "pause"       // a destination of several is paused at all replicas
	Retry      Kind = "retry"       // an operator retries the rows that have failed at a destination of several
)

// The unclean kinds: a process is killed, or a client loses a connection and cannot know what arrived.
const (
	Kill        Kind = "kill"         // kill -9, and a new process after a while
	Freeze      Kind = "freeze"       // SIGSTOP for longer than the time to live, then SIGCONT
	CutData     Kind = "cut-data"     // a replica's connections to the database are reset and new ones refused
	HalfData    Kind = "half-data"    // they stay open, and nothing gets through in either direction
	MuteData    Kind = "mute-data"    // statements arrive, answers do not; then they are reset
	Terminate   Kind = "terminate"    // pg_terminate_backend for all sessions of a replica
	CrashData   Kind = "crash-data"   // the database server is killed, and recovers after a while
	CutBroker   Kind = "cut-broker"   // a replica's connections to the broker are reset and new ones refused
	HalfBroker  Kind = "half-broker"  //
	MuteBroker  Kind = "mute-broker"  //
	CrashBroker Kind = "crash-broker" // the broker is killed, and recovers after a while
)

// The kinds for a broker of three nodes. All but MoveLeaders are unclean.
const (
	MoveLeaders   Kind = "move-leaders"   // other nodes become leaders
	KillNode      Kind = "kill-node"      // a node is killed, and started after a while
	StopNode      Kind = "stop-node"      // a node is stopped gracefully, and is started after a while
	FreezeNode    Kind = "freeze-node"    // SIGSTOP, then SIGCONT
	BlackholeNode Kind = "blackhole-node" // clients do not reach a node, and its leaders stay there
	OneLeft       Kind = "one-left"       // two nodes are killed: no majority, in Kafka one replica in sync
	Roll          Kind = "roll"           // the nodes are restarted one after the other
	LameDuck      Kind = "lame-duck"      // NATS: a node asks its clients to leave and ends
	Minority      Kind = "minority"       // RabbitMQ: a node does not see the others and clients still reach it
)

var (
	clean     = []Kind{Stop, Stop, Scale, Scale, SlowBroker, SlowData, LongOpen, Burst, CutWriters}
	unclean   = []Kind{Kill, Kill, Freeze, CutData, HalfData, MuteData, Terminate, CutBroker, HalfBroker, MuteBroker}
	several   = []Kind{Pause, Pause, Retry}
	crashes   = []Kind{CrashData, CrashBroker}
	nodes     = []Kind{KillNode, StopNode, FreezeNode, BlackholeNode, OneLeft, Roll}
	nodesOf   = map[string][]Kind{"nats": {LameDuck}, "rabbitmq": {Minority}} // further kinds of single brokers
	brokerCut = []Kind{CutBroker, HalfBroker, MuteBroker, SlowBroker}
)
