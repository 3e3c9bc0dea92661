#!/bin/sh
# RDMA between two nodes, through the scheduler: ib_write_bw of perftest. The first node (client)
# writes into the memory of the second (server), over InfiniBand or RoCE v2 with an IPv6 GID.
# Prints one line, with MB = 10^6 bytes:
#     worker1 -> worker2 rxe0 ib_write_bw 123.4 MB/s
# or an error on standard error, with exit status 1. The script works on any cluster:
#     scripts/rdma_pair.sh -w 'worker[1-2]'          on a head; passes its arguments to srun
#     sbatch -N2 --ntasks-per-node=1 scripts/rdma_pair.sh
#     srun -N2 --ntasks-per-node=1 scripts/rdma_pair.sh
#
# Environment:
#     DEVICE      name in /sys/class/infiniband; default: the first with an active port
#     IB_PORT     its port (1)
#     SIZE        bytes per message (4096)
#     ITERATIONS  messages, at least 5 (100); real NICs: SIZE=8388608 ITERATIONS=5000
#     PORT        TCP port of the server (18515 plus the job id modulo 1000)
#     WAIT_S      how long the client waits for the server (60)
#     LIMIT_S     time limit of each side (300)
set -eu

sysfs="${RDMA_PAIR_SYSFS:-/sys/class/infiniband}"       # tests use another folder
addresses="${RDMA_PAIR_IF_INET6:-/proc/net/if_inet6}"

me="${SLURMD_NODENAME:-$(uname -n)}"
fail() {
    echo "rdma_pair: $me: $1" >&2
    exit 1
}

# -- outside of a step with two tasks, start one. Pass the script as an argument, because neither
#    sbatch's copy nor the file on the head exists on the second node.
if [ "${SLURM_STEP_NUM_TASKS:-}" != 2 ] || [ -z "${SLURM_PROCID:-}" ]; then
    command -v srun >/dev/null || fail "srun: not found; run this on a host with the Slurm commands"
    exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --quiet "$@" \
        sh -c "$(cat "$0")" rdma_pair.sh
fi

server="$(scontrol show hostnames "$SLURM_STEP_NODELIST" | sed -n 2p)"
[ -n "$server" ] || fail "scontrol does not know the nodes of $SLURM_STEP_NODELIST"
command -v ib_write_bw >/dev/null || fail "ib_write_bw: not found; perftest is not installed"

port_folder() { echo "$sysfs/$1/ports/${IB_PORT:-1}"; }
active() { grep -q ACTIVE "$(port_folder "$1")/state" 2>/dev/null; }

device="${DEVICE:-}"
if [ -z "$device" ]; then
    for folder in "$sysfs"/*; do
        if active "${folder##*/}"; then device="${folder##*/}"; break; fi
    done
    [ -n "$device" ] || fail "no RDMA device with an active port below $sysfs"
elif [ ! -d "$sysfs/$device" ]; then
    fail "$device: no such RDMA device below $sysfs"
fi
active "$device" || fail "$device: port ${IB_PORT:-1} is not ACTIVE"
folder="$(port_folder "$device")"

# Prints the index of the RoCE v2 GID that is a global IPv6 address of the device's interface.
# Unused entries cannot be read (EINVAL). if_inet6 has addresses as 32 hex digits, followed by
# index, prefix length, scope (00 is global), flags and interface.
roce_v2_gid() {
    for file in "$folder"/gid_attrs/types/*; do
        type="$(cat "$file" 2>/dev/null)" || continue
        [ "$type" = "RoCE v2" ] || continue
        n="${file##*/}"
        gid="$(tr -d ':\n' <"$folder/gids/$n")" || continue
        interface="$(cat "$folder/gid_attrs/ndevs/$n" 2>/dev/null)" || continue
        if grep -Eq "^$gid [0-9a-f]+ [0-9a-f]+ 00 [0-9a-f]+ +$interface\$" "$addresses"; then
            echo "$n"
            return
        fi
    done
}

# perftest's flags (ib_write_bw(1)); both sides need the same:
#   -d, -i        device and its port
#   -s, -n        bytes per message, number of messages
#   -p            TCP port for exchanging parameters
#   -u 18         retransmit after 4 us * 2^18, one second, because emulated CPUs are slow
#   -F            no warning about the CPU frequency
#   -x            GID by index, RoCE only; --ipv6 would also select link-local addresses
#   --ipv6-addr   exchange parameters over IPv6; it takes no argument, unlike in --help
set -- -d "$device" -i "${IB_PORT:-1}" -s "${SIZE:=4096}" -n "${ITERATIONS:=100}" -u 18 -F \
    -p "${PORT:-$((18515 + ${SLURM_JOB_ID:-0} % 1000))}"
if [ "$(cat "$folder/link_layer")" = Ethernet ]; then
    gid="$(roce_v2_gid)"
    [ -n "$gid" ] || fail "$device: no RoCE v2 GID with a global IPv6 address of its interface"
    set -- "$@" -x "$gid"
fi
case "$(getent ahosts "$server" | sed -n '1s/ .*//p')" in
    "") fail "$server: no address; the client connects by host name" ;;
    *:*)
        ib_write_bw --help 2>&1 | grep -q -e --ipv6-addr || fail \
            "this ib_write_bw connects over IPv4 only; install perftest 23.07 or newer"
        set -- "$@" --ipv6-addr
        ;;
esac

said="$(mktemp)"
trap 'rm -f "$said"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "$SLURM_PROCID" = 1 ]; then
    timeout "${LIMIT_S:-300}" ib_write_bw "$@" >"$said" 2>&1 ||
        fail "server, ib_write_bw $*: $(tail -n 3 "$said" | tr '\n' ' ')"
    exit 0
fi

# The client cannot know when the server listens, so it retries a refused connection.
waited=0
until timeout "${LIMIT_S:-300}" ib_write_bw "$@" "$server" >"$said" 2>&1; do
    grep -q "Couldn't connect" "$said" ||
        fail "client, ib_write_bw $* $server: $(tail -n 3 "$said" | tr '\n' ' ')"
    [ "$waited" -lt "${WAIT_S:-60}" ] || fail "$server did not listen within ${WAIT_S:-60} s"
    waited=$((waited + 1))
    sleep 1
done

# Columns: bytes, iterations, peak, average, rate. The unit is 2^20 bytes, despite the header.
rate="$(awk -v size="$SIZE" '$1 == size && NF >= 5 { printf "%.1f", $4 * 1.048576 }' "$said")"
case "$rate" in
    0.0) fail "below 0.05 MB/s: packets are lost (the adapter resends each after a second)" ;;
    "") fail "no bandwidth in the output of ib_write_bw: $(tail -n 5 "$said" | tr '\n' ' ')" ;;
esac
echo "$me -> $server $device ib_write_bw $rate MB/s"
