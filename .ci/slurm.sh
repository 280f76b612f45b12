# slurm_up installs the programs of Slurm; the tests start a controller and two nodes of their own. No service is started.

slurm_up() {
  command -v sbatch >/dev/null && [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ] && [ -x /usr/sbin/munged ] && return
  apt-get -qq update
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends slurm-wlm munge >/dev/null
}
