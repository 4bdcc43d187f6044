#!/bin/sh
# One pass, as `riata fit --batch FILE --pass-command deploy/kubernetes/batch/pass.sh` asks for it. Needs kubectl.
set -eu
job=$(sed -e "s|ROWS_FILE|$RIATA_ROWS|" -e "s|CALL_FILE|$RIATA_CALL|" -e "s|INTO_FOLDER|$RIATA_INTO|" "$(dirname "$0")/job.yaml" |
  kubectl create -o name -f -)
trap 'kubectl -n riata delete --wait=false "$job"' EXIT
kubectl -n riata wait --for=condition=complete --timeout=1h "$job"
