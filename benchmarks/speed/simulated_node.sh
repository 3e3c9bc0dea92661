#!/bin/sh
# Runs the program on standard input as a simulated node: on this machine, with an /etc of its own.
#
#     simulated_node.sh FOLDER NAME ADDRESS
#
# The first call copies /etc to FOLDER and adds files that contain the node's name and address.
# Needs root. Nothing outside FOLDER is changed.
set -eu
tree=$1/$2
if ! [ -d "$tree" ]; then
    mkdir -p "$1"
    cp -a /etc "$tree"
    mkdir "$tree/simulated"
    seq 2000 >"$tree/simulated/equal.conf"
    for number in $(seq 16); do
        printf 'daemon %s\nname %s\naddress %s\n' "$number" "$2" "$3" >"$tree/simulated/$number.conf"
    done
    # Equal nodes were set up in the same way.
    chmod -R u=rwX,go=rX "$tree/simulated"
fi
exec unshare --mount --propagation private sh -c '
    mount --bind "$1" /etc
    exec python3 -IS -c "import sys;exec(sys.stdin.buffer.readline())"
' sh "$tree"
