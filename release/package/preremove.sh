#!/bin/sh
# Before a removal, which deb calls "remove" and rpm 0, and not before an upgrade: the inspector ends. Jobs that run go on.
set -e
case ${1-} in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now holdfast-ui.service || true
  fi
  ;;
esac
