#!/bin/sh
# Boots machines, deploys a Kubernetes cluster on them, checks it, and runs pods: names, GPUs, a
# second deploy, a power cycle. Leaves the lab "kubernetes" up.
set -eu
cd "$(dirname "$0")/.."

LOCKSTEP_LAB="${LOCKSTEP_LAB:-kubernetes}"
export LOCKSTEP_LAB
started="$(date +%s)"
step() { printf '\n==> [%3d s] %s\n' "$(($(date +%s) - started))" "$*"; }
node() { .venv/bin/python -m lab run "$@"; }
kubectl() { node head -- kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
# Ends with an error if something is not so within $1 seconds: the last output tells what is.
within() {
    until="$(($(date +%s) + $1))"
    shift
    while ! said="$("$@" 2>&1)"; do
        if [ "$(date +%s)" -gt "$until" ]; then
            printf '%s: still not so:\n%s\n' "$*" "$said" >&2
            return 1
        fi
        sleep 1
    done
}
# Succeeds if a command prints a text.
prints() {
    text="$1"
    shift
    output="$("$@" 2>&1)" || { printf '%s\n' "$output"; return 1; }
    case "$output" in *"$text"*) ;; *) printf '%s\n' "$output"; return 1 ;; esac
}

step "machines: one head, $WORKERS workers, Kubernetes $KUBERNETES"
.venv/bin/python -m lab up --workers "$WORKERS" --kubernetes "$KUBERNETES"

step "deploy: pyinfra -y inventories/lab.py deploys/cluster.py"
.venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py
kubectl get nodes -o wide

step "check: lockstep check inventories/lab.py"
.venv/bin/lockstep check inventories/lab.py

step "names: each worker's pod asks the others by the name of their Service"
kubectl apply -f - < scripts/kubernetes/names.yaml
within 90 kubectl rollout status daemonset/names --timeout=5s
for pod in $(kubectl get pods -l app=names -o name); do
    within 30 prints "hello from" kubectl exec "$pod" -- wget -qO- http://names:8080/
    printf '%s: %s\n' "$pod" "$(kubectl exec "$pod" -- wget -qO- http://names:8080/)"
done

step "GPUs: a pod with two sees its two, and one with nine waits"
for number in $(seq "$WORKERS"); do
    within 90 prints 8 kubectl get nodes "worker$number" \
        -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}'
done
kubectl apply -f - < scripts/kubernetes/gpus.yaml
within 60 kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/two --timeout=5s
kubectl logs two
test "$(kubectl logs two | grep -c '^GPU ')" = 2
within 30 prints "Insufficient nvidia.com/gpu" kubectl get pod nine \
    -o 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}'
kubectl get pods nine -o 'jsonpath={.status.phase}: {.status.conditions[0].message}'
echo

step "again: a second deploy changes nothing"
said="$(.venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py 2>&1)" || {
    printf '%s\n' "$said"
    exit 1
}
printf '%s\n' "$said" | grep 'Grand total'
# Of the operations, none has succeeded (changed something) or failed: all are in the last column.
printf '%s\n' "$said" | grep -Eq 'Grand total +([0-9]+) +- +- +\1 *$'

step "power cycle: worker1 comes back by itself"
.venv/bin/python -m lab power-cycle worker1
within 90 prints "hello from" node head -- kubectl --kubeconfig /etc/kubernetes/admin.conf \
    exec "$(kubectl get pods -l app=names --field-selector spec.nodeName=worker1 -o name)" \
    -- wget -qO- http://names:8080/

step "done: the lab is up"
cat <<END
    machines    LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/python -m lab status
    Kubernetes  LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/python -m lab run head -- \\
                    kubectl --kubeconfig /etc/kubernetes/admin.conf get pods --all-namespaces
    repair      LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/pyinfra -y inventories/lab.py deploys/cluster.py
    compare     LOCKSTEP_LAB=$LOCKSTEP_LAB .venv/bin/lockstep check inventories/lab.py
    remove it   .venv/bin/python -m lab --name $LOCKSTEP_LAB down
    remove all  make clean-lab
END
