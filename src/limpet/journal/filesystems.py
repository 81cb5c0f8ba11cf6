"""Can this file system keep the journal's promises?"""

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OVER_A_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre"}
_OVER_A_NETWORK |= {"9p", "beegfs", "gpfs", "vboxsf", "prl_fs", "virtiofs", "ncpfs"}
# fuseblk and these are local disks; every other FUSE is somebody's own idea of a file.
_LOCAL_FUSE = {"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.bindfs", "fuse.lxcfs"}


def doubt_about(path: Path, mounts: str | None = None) -> str | None:
    """Return why locks or appends may not hold where `path` lies, or None.

    Only Linux tells; elsewhere there is no doubt and no knowledge.

    Args:
        path: A file or directory that exists.
        mounts: The text of `mountinfo`; None: this process's own.
    """
    kind = _type_at(path.resolve(), _read_mounts() if mounts is None else mounts)
    if kind in _OVER_A_NETWORK:
        return f"{path} lies on {kind}: locks and appends over a network are not always kept"
    if kind is not None and kind.startswith("fuse") and kind not in _LOCAL_FUSE:
        return f"{path} lies on {kind}: an object store behind FUSE may lose or reorder appends"
    return None


def _read_mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _type_at(path: Path, mounts: str) -> str | None:
    best, kind = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4]))
        depth = len(point.parts)
        if depth >= best and (point == path or point in path.parents):
            best, kind = depth, after.split(" ")[0]
    return kind
