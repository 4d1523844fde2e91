#!/usr/bin/env bash
# The first process of the namespaces in which a cluster runs. It prepares their mounts and waits. When it ends, all other
# processes in them end, too.
# Argument: the folder of the cluster.
set -euo pipefail
folder=$1

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
# Programs write to fixed folders in /var. The overlay sends these writes to a folder of this cluster.
for name in lib log; do
  mkdir -p "$folder/var/$name" "$folder/var/work-$name"
  mount -t overlay overlay -o "lowerdir=/var/$name,upperdir=$folder/var/$name,workdir=$folder/var/work-$name" "/var/$name"
done

# The kubelet insists on these kernel settings, which count for the whole machine. So it reads and writes files in their
# place.
settings="$folder/settings"
mkdir "$settings"
while read -r setting value; do
  [ -e "/proc/sys/$setting" ] || continue
  echo "$value" > "$settings/${setting//\//-}"
  mount --bind "$settings/${setting//\//-}" "/proc/sys/$setting"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END

touch "$folder/prepared"
# Bash waits here, and collects processes whose parents have ended.
sleep infinity &
wait
