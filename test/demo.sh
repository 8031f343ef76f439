#!/usr/bin/env bash
# The main job, from nothing to a running site, shown as it happens: a
# controller on a store of its own, a rack and a worker as separate processes,
# 30 machines of three kinds, one whose start fails twice, one removed by force.
# Ends with a summary and 0, or with what was not as it should be and 1.
#
#	demo.sh [sqlite | mongo | mongodb://HOST:PORT[,...]/[DATABASE]?replicaSet=NAME]
#
# "mongo" is the double that the tests use. On a server that a URL names, the demo
# takes a database of its own unless the URL names a new one, and leaves it behind;
# SLIPWAY_TEST_MONGO_CREDENTIALS is a file whose first line is USER:PASSWORD.
set -euo pipefail
cd "$(dirname "$0")/.."
store=${1:-sqlite}
bin=$PWD/bin
dir=$(mktemp -d)
began=$SECONDS

declare -A pid
cleanup() {
	local name
	for name in worker rack controller store; do
		[ -n "${pid[$name]:-}" ] && kill "${pid[$name]}" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "== $*"; }
fail() {
	echo "demo FAILED: $*" >&2
	for f in "$dir"/*.log; do
		echo "--- end of ${f##*/}" >&2
		tail -n 20 "$f" >&2
	done
	exit 1
}

# launch NAME COMMAND... starts a process and waits for its ready line, whose
# address it leaves in $address.
launch() {
	local name=$1
	shift
	: >"$dir/$name.out" # the process may be slower than the first look
	"$@" >"$dir/$name.out" 2>"$dir/$name.log" &
	pid[$name]=$!
	local limit=$((SECONDS + 60))
	while [ $SECONDS -lt $limit ]; do
		address=$(sed -n 's/^ready //p' "$dir/$name.out")
		[ -n "$address" ] && return
		kill -0 "${pid[$name]}" 2>/dev/null || fail "$name ended: $(tail -n 1 "$dir/$name.log")"
		sleep 0.1
	done
	fail "$name is not ready after 60 s"
}
# run COMMAND... shows a command and runs it.
run() {
	printf '$ %s\n' "$*"
	"$bin/$1" "${@:2}"
}
current() { "$bin/slipway" status --format json | grep -c "\"current\": \"$1\"" || true; }

storeflag=()
case $store in
sqlite) ;;
mongo)
	say "this demo runs on the double of a MongoDB replica set that the tests use: no MongoDB is needed"
	launch store "$bin/mongodouble" --listen 127.0.0.1:0
	storeflag=(--store "mongodb://$address/slipway?replicaSet=rs0")
	;;
mongodb://*)
	hosts=${store#mongodb://} options=
	[[ $hosts == *\?* ]] && options="?${hosts#*\?}" hosts=${hosts%%\?*}
	database=
	[[ $hosts == */* ]] && database=${hosts#*/} hosts=${hosts%%/*}
	store=mongodb://$hosts/${database:-slipway-demo-$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')}$options
	say "this demo runs on $store"
	storeflag=(--store "$store")
	[ -z "${SLIPWAY_TEST_MONGO_CREDENTIALS:-}" ] || storeflag+=(--store-credentials-file "$SLIPWAY_TEST_MONGO_CREDENTIALS")
	;;
*)
	echo "demo.sh: unknown store \"$store\": want sqlite, mongo, or mongodb://HOST:PORT/?replicaSet=NAME" >&2
	exit 2
	;;
esac

say "a controller, a simulated rack, and a worker: three processes"
"$bin/controllerd" bootstrap --data-dir "$dir/site" --listen 127.0.0.1:0 "${storeflag[@]}" >"$dir/bootstrap.out" 2>"$dir/bootstrap.log" ||
	fail "bootstrap: $(tail -n 1 "$dir/bootstrap.log")"
launch controller "$bin/controllerd" run --data-dir "$dir/site"
echo "controller at $address, its state in $store"
export SLIPWAY_DATA=$dir/site/client
launch rack "$bin/provisionerd" simrack --listen 127.0.0.1:0 --data-dir "$dir/rack"
rack=http://$address
echo "rack at $rack"
run slipway model-config "rack-url=$rack" "rack-token=@$dir/rack/rack.token" provisioner-retry-delay=2s
"$bin/provisionerd" simrack fault --url "$rack" --data-dir "$dir/rack" --machine 7 --times 2 --message "power supply is not answering"
"$bin/provisionerd" model --agent-file "$dir/site/agents/machine-0.yaml" 2>"$dir/worker.log" &
pid[worker]=$!

say "an operator asks for 30 machines"
run slipway add-machine -n 12
run slipway add-machine -n 10 --constraints "cores=4 mem=8G"
run slipway add-machine -n 8 --constraints "mem=16G" --to zone=zone2

say "the worker hears of them at once, and starts them"
seen=
limit=$((SECONDS + 180))
while [ $SECONDS -lt $limit ]; do
	started=$(current started)
	waiting=$("$bin/slipway" show-machine 7 --format json | grep -o 'power supply is not answering[^"]*' | head -n 1 || true)
	if [ -n "$waiting" ] && [ -z "$seen" ]; then
		seen=$waiting
		echo "machine 7: $seen"
	fi
	[ "$started" != "${shown:-}" ] && printf '%2d of 30 started\n' "$started"
	shown=$started
	[ "$started" -ge 30 ] && break
	sleep 0.4
done
if [ -z "$seen" ]; then # it came and went between two looks
	seen=$("$bin/slipway" show-status-log 7 | grep -o 'power supply is not answering.*' | tail -n 1 || true)
	echo "machine 7: $seen"
fi
[ -n "$seen" ] || fail "the injected fault of machine 7 was not seen in its status"
run slipway wait --all --for started --timeout 2m || fail "not all machines have started"

say "one is removed by force"
run slipway remove-machine 12 --force
run slipway wait 12 --for gone --timeout 2m || fail "machine 12 is still there"

say "what the operator sees"
run slipway status >"$dir/status.txt"
head -n 16 "$dir/status.txt"
echo "..."

started=$(current started)
[ "$started" = 29 ] || fail "$started machines are started, want 29"
left=$(grep -c . <<<"$("$bin/slipway" machines --format json | grep -o '"instance-id": "[^"]*"' | sort -u)")
[ "$left" = 29 ] || fail "$left instances, want 29"
say "demo passed: 30 machines asked for, 29 running, 1 removed by force, 1 fault seen and retried, in $((SECONDS - began)) s"
