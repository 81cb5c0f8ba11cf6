"""How do bytes get to the disk, and stay there?"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from limpet.errors import JournalError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where a journal is only read
    fcntl = None  # type: ignore[assignment]

Parts = Sequence[bytes | memoryview]
CHUNK_BYTES = 2**20
_MOST_PARTS = 1024  # IOV_MAX, on Linux and macOS
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def open_for_append(path: Path) -> int:
    """Open a file to append to, or make it; either way its name is on the disk.

    The file is opened for reading too, so that recovery and the writer are the same file.
    """
    fd = open_own(path, os.O_APPEND)
    try:
        # Also if it was there: whoever made it may have been killed before this.
        sync_directory(path.parent)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_own(path: Path, more: int = 0) -> int:
    """Open one of our files to write, or make it: a file with this one name, and nothing else.

    Through a link we would change a file that is not ours, and two journals would share one. A
    directory above it may be a link.

    Raises:
        JournalError: Something else is in its place.
        OSError: What the system said.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | more
    try:
        fd = os.open(path, flags, 0o666)
    except OSError as error:
        what = _what_else(path)
        if what is None:
            raise
        raise _in_its_place(path, what) from error
    what = _what_else(fd)
    if what is not None:
        os.close(fd)
        raise _in_its_place(path, what)
    return fd


def open_to_read(path: Path, buffering: int = -1) -> BinaryIO:
    """Open one of our files to read. What is no file at all is refused, and never waited for.

    Raises:
        JournalError: It is a directory, a pipe or a device.
        OSError: What the system said.
    """
    # By name: Windows, where a journal is only read, lacks some of them and needs another.
    wanted = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
    fd = os.open(path, sum(getattr(os, name, 0) for name in wanted) | os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        what = _what_else(fd)
        os.close(fd)
        raise _in_its_place(path, what or "no file")
    return os.fdopen(fd, "rb", buffering)


_CLOSED = "other code in this process closed the file"


class OwnFile(NamedTuple):
    """A file that we opened, by its number. Other code may close it, and get the number anew."""

    fd: int
    device: int
    node: int

    @classmethod
    def of(cls, fd: int) -> "OwnFile":
        """Remember which file this is."""
        found = os.fstat(fd)
        return cls(fd, found.st_dev, found.st_ino)

    def size(self) -> int:
        """Return how long it is.

        Raises:
            OSError: It was closed by somebody else.
        """
        try:
            found = os.fstat(self.fd)
        except OSError as error:  # and nobody has its number yet
            raise OSError(error.errno, _CLOSED) from error
        if (found.st_dev, found.st_ino) != (self.device, self.node):
            raise OSError(errno.EBADF, _CLOSED)
        return found.st_size

    def close(self) -> None:
        """Close it, unless somebody else has."""
        with contextlib.suppress(OSError):
            self.size()
            os.close(self.fd)


def read_whole(path: Path) -> bytes:
    """Return what is in one of our files; raises as `open_to_read` does."""
    with open_to_read(path) as file:
        return file.read()


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _what_else(place: Path | int) -> str | None:
    """Say what a place holds that is not a file with one name; None if it is one, or nothing."""
    try:
        found = os.fstat(place) if isinstance(place, int) else place.lstat()
    except OSError:
        return None
    if stat.S_ISREG(found.st_mode):
        return f"a file with {found.st_nlink} names (hard links)" if found.st_nlink > 1 else None
    return _KINDS.get(stat.S_IFMT(found.st_mode), "no file")


def _in_its_place(path: Path, what: str) -> JournalError:
    return JournalError(
        f"{path}: this is {what}; a run's own files must be files of their own",
        hint="put a copy of the file in its place, or take it away; nothing was changed",
    )


def make_directory(path: Path) -> None:
    """Make a directory and those above it, each synced into its parent."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
        return
    # Whoever made it may have been killed before this. Not everybody may look above it.
    with contextlib.suppress(PermissionError):
        sync_directory(path.parent)


def write_all(fd: int, parts: Iterable[bytes]) -> None:
    """Write all the parts, at most a megabyte at a time.

    Raises:
        OSError: What the system said; some of the bytes may be in the file.
    """
    for chunk in _chunks(parts):
        left: Parts = chunk
        while left:
            # Python itself goes on after EINTR.
            written = os.writev(fd, left)
            if written == 0 and any(left):
                raise OSError(errno.EIO, "the system wrote nothing and gave no reason")
            left = _rest(left, written)


def _chunks(parts: Iterable[bytes]) -> Iterator[Parts]:
    """Yield the parts in groups that one system call takes."""
    chunk: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        for at in range(0, len(part), CHUNK_BYTES):
            piece = memoryview(part)[at : at + CHUNK_BYTES] if len(part) > CHUNK_BYTES else part
            if size + len(piece) > CHUNK_BYTES or len(chunk) == _MOST_PARTS:
                yield chunk
                chunk, size = [], 0
            chunk.append(piece)
            size += len(piece)
    if chunk:
        yield chunk


def _rest(parts: Parts, written: int) -> Parts:
    for number, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[number + 1 :]]
        written -= len(part)
    return []


def sync_file(fd: int) -> None:
    """Return when the file's bytes and length are on the disk itself.

    Raises:
        OSError: They may not be. Never ask again: the system has forgotten which they were.
    """
    full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fdatasync(fd)
        return
    try:
        fcntl.fcntl(fd, full_sync)  # macOS: fsync stops at the drive's cache
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            raise
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(fd)


def replace_file(path: Path, content: Iterable[bytes]) -> None:
    """Put a whole file in the place of another: readers see the old one or the new one.

    Args:
        path: The file.
        content: Its bytes, in pieces of any size.

    Raises:
        OSError: It could not be written; the old one is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a process that was killed; or somebody's link
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, content)
            sync_file(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


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
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    kind = _file_system_at(path.resolve(), mounts)
    if kind in _OVER_A_NETWORK:
        return f"{path} lies on {kind}: locks and appends over a network are not always kept"
    if kind.startswith("fuse") and kind not in _LOCAL_FUSE:
        return f"{path} lies on {kind}: an object store behind FUSE may lose or reorder appends"
    return None


def _file_system_at(path: Path, mounts: str) -> str:
    best, kind = -1, ""
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
