# packages.sh: sourced by scripts that need a program. Their function present succeeds if the
# program exists, and their variable packages says what to install: a package manager and its
# packages in each line, a manager's better ones first.

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# install_with MANAGER PACKAGE...: as root or with a sudo that asks no password.
install_with() {
  local manager=$1
  shift
  case $manager in
    apt-get)
      as_root apt-get update -q
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy "$@"
      ;;
    dnf) as_root dnf install -qy "$@" ;;
    apk) as_root apk add --no-progress "$@" ;;
    pacman) as_root pacman -S --noconfirm "$@" ;;
    brew) brew install --quiet "$@" ;;
  esac
}

# install_packages installs with the first manager that the system has.
install_packages() {
  local known= manager names
  while read -r manager names; do
    [ -n "$known" ] && [ "$known" != "$manager" ] && return 1
    command -v "$manager" >/dev/null || continue
    known=$manager
    install_with "$manager" $names </dev/null && return
  done <<<"$packages"
  [ -n "$known" ] || echo "${0##*/}: no package manager that it knows" >&2
  return 1
}

# ensure WHAT: succeeds if WHAT exists, or was installed.
ensure() {
  present && return
  echo "${0##*/}: no $1: installing" >&2
  install_packages >&2
  hash -r
  present
}

# by_hand prints how to install the packages.
by_hand() {
  local manager names system last=
  while read -r manager names; do
    [ "$manager" = "$last" ] && continue
    last=$manager
    case $manager in
      apt-get) system="Debian, Ubuntu:" ;;
      dnf) system="Fedora, RHEL:" ;;
      apk) system="Alpine:" ;;
      pacman) system="Arch:" ;;
      brew) system="macOS:" ;;
    esac
    case $manager in
      apk) manager="apk add" ;;
      pacman) manager="pacman -S" ;;
      *) manager="$manager install" ;;
    esac
    printf '  %-16s %s %s\n' "$system" "$manager" "$names"
  done <<<"$packages"
}
