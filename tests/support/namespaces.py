"""Whether this machine can play several hosts: network and mount namespaces, without rights of root."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys

ALONE = "mount -o remount,bind,ro / && ip link set lo up"
"""What begins a host: nothing of the machine's disk can be written."""


@functools.cache
def why_no_hosts() -> str:
    """Why there are no hosts here; "" if there are."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    missing = [name for name in ("unshare", "ip", "openssl", "mount") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    cable = f"ip link add one type veth peer name other && mount --bind /etc/hosts /etc/hosts && {ALONE}"
    done = subprocess.run(["unshare", "-Urnm", "sh", "-ec", cable], capture_output=True, text=True, check=False)
    return f"namespaces are not permitted here: {done.stderr.strip()}" if done.returncode else ""
