# Processes of the native services: each has a pid file in $RUN, a log in $LOGS, and no terminal.

# pid NAME prints the pid of a running service and fails when it is not running.
pid() {
  local p
  p=$(head -n1 "$RUN/$1.pid" 2>/dev/null) && [ -n "$p" ] && [ -d "/proc/$p" ] || return 1
  # A pid file can outlive its process and the number can be used again: compare the command.
  tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -qF -- "$SERVICES_DIR" || return 1
  echo "$p"
}

# detach COMMAND... replaces this process by COMMAND in a session of its own, with no descriptor left
# but the first three. An inherited one would keep our lock, or that of a caller such as
# `flock FILE services.sh up`, for as long as the service lives.
detach() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
  done
  cd / && exec setsid "$@" </dev/null
}

# spawn NAME COMMAND... starts COMMAND with a fresh log.
spawn() {
  local name=$1
  shift
  detach "$@" >"$LOGS/$name.log" 2>&1 &
  echo $! >"$RUN/$name.pid"
}

# until_ready NAME COMMAND... polls COMMAND; fails early when the process has died.
until_ready() {
  local name=$1 start=$SECONDS
  shift
  until "$@" >/dev/null 2>&1; do
    # In its first moments a spawned process is still the shell that becomes it.
    if ((SECONDS >= start + 2)) && ! pid "$name" >/dev/null; then
      { grep -E 'ERROR|FATAL|Exception' "$LOGS/$name.log" | tail -n 10 || true; tail -n 20 "$LOGS/$name.log"; } >&2
      die "$name died while starting"
    fi
    ((SECONDS < start + SERVICES_TIMEOUT)) || die "$name is not ready after ${SERVICES_TIMEOUT}s, see $LOGS/$name.log"
    sleep 0.1
  done
}

# terminate NAME SIGNAL waits up to 40 s for the process to go, then kills it.
terminate() {
  local p
  if p=$(pid "$1"); then
    kill "-$2" "$p"
    gone "$p" 400 || { kill -KILL "$p" && gone "$p" 100; } || true
  fi
  rm -f "$RUN/$1.pid"
}

# kill9 NAME kills the process and its children, as a machine that loses power would.
kill9() {
  local p children child
  p=$(pid "$1") || return 1
  children=$(cat "/proc/$p/task/$p/children" 2>/dev/null) || true
  # shellcheck disable=SC2086  # a list of numbers
  kill -KILL "$p" $children 2>/dev/null || true
  for child in "$p" $children; do gone "$child" 100 || true; done
  rm -f "$RUN/$1.pid"
}

# gone PID N waits N tenths of a second for a process to end. In a container whose first process
# does not collect its children it stays a zombie, which holds neither port nor file.
gone() {
  local i zombie=0
  for ((i = 0; i < $2; i++)); do
    [ -d "/proc/$1" ] || return 0
    if zombie "$1" && ((++zombie > 10)); then return 0; fi
    sleep 0.1
  done
  return 1
}

zombie() { grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# listening PORT reports whether something accepts connections there.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
