# ssh_up installs the ssh server and command that the tests of remote hosts start on the loopback interface.

ssh_up() {
  [ -x /usr/sbin/sshd ] && command -v ssh >/dev/null && return
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends openssh-server openssh-client >/dev/null
}
