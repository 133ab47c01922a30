#!/bin/sh
# Before a removal, but not before an upgrade: deb says "upgrade", rpm says 1 then.
set -e
case "${1:-}" in
upgrade | 1) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now breakwater.service || true
