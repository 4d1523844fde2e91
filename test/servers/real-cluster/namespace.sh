#!/usr/bin/env bash
# The first process in the Linux namespaces of a cluster. It prepares the mounts of the namespaces and then waits. When
# it ends, the kernel ends all other processes in the namespaces. Argument: the folder of the cluster.
set -euo pipefail
folder=$1

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
# Programs write to fixed folders in /var. An overlay keeps these writes in the folder of this cluster.
for name in lib log; do
  mkdir -p "$folder/var/$name" "$folder/var/work-$name"
  mount -t overlay overlay -o "lowerdir=/var/$name,upperdir=$folder/var/$name,workdir=$folder/var/work-$name" "/var/$name"
done

# The kubelet requires certain values of these kernel settings, which apply to the whole machine. So the kubelet gets
# files in place of the settings, and the machine's settings do not change.
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
# Bash waits here. It also collects processes whose parent has ended, so that no zombies are left.
sleep infinity &
wait
