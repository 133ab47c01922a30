# What stands before the commands of a page when they are run as a test. The
# commands of a page run in one shell, in a folder of their own, against a server
# and a sink of their own; the addresses that the pages use are replaced by theirs.
set -eE -o pipefail
trap 'echo "### failed: $BASH_COMMAND" >&2' ERR
export BREAKWATER_URL=http://$SERVER
mkdir -p docs/img && cp -r "$ROOT/docs/scenarios" docs/

# started waits until what runs under a name answers.
started() {
  for _ in $(seq 600); do
    command curl -fsS "http://$2" >/dev/null 2>&1 && return
    kill -0 "$(cat "$1.pid")" 2>/dev/null || { echo "the $1 has ended" >&2 && return 1; }
    command sleep 0.1
  done
  echo "nothing answers at $2" >&2
  return 1
}

# ended stops what runs in the background under a name.
ended() {
  [ ! -e "$1.pid" ] || { kill "$(cat "$1.pid")" && while kill -0 "$(cat "$1.pid")"; do command sleep 0.05; done; } 2>/dev/null || true
  rm -f "$1.pid"
}

# Servers and sinks run beside the commands, as in a terminal of their own; the
# next one takes the place of the last.
serve() {
  ended server
  command breakwater serve --listen "$SERVER" "$@" >>server.log 2>&1 &
  echo $! >server.pid
  started server "$SERVER/readyz"
}
sink() {
  ended sink
  command breakwater sink --listen "$SINK" "$@" >>sink.log 2>&1 &
  echo $! >sink.pid
  started sink "$SINK/_sink"
}

# What takes minutes for a person to watch is made short.
breakwater() {
  local args=() last=
  for arg in "$@"; do
    case $last in
    --count) [ "$arg" -le 40 ] || arg=40 ;;
    --rate) [ "$1" != send ] || arg=200/s ;;
    --seeds) arg=1 ;;
    esac
    args+=("$arg")
    last=$arg
  done
  case $1 in
  serve | sink) "${args[@]}" ;;
  *) command breakwater "${args[@]}" ;;
  esac
}
sleep() { command sleep "$([ "$1" -le 8 ] && echo "$1" || echo 1)"; }

# A target has to be there; what it does is tested where it stands.
make() { command make --no-print-directory --dry-run -C "$ROOT" "$@" >/dev/null; }
go() {
  case "$1 $2" in
  "run ./cmd/breakwater") breakwater "${@:3}" ;;
  *) (cd "$ROOT" && GOBIN=$FOLDER/bin CGO_ENABLED=0 command go "$1" -trimpath "${@:2}") ;; # as the tests build it
  esac
}

trap 'ended server; ended sink' EXIT
serve --dev
sink
