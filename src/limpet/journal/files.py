"""How do bytes get to disk and stay there?"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
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
    """Open or create a file for appending and reading, and sync its name to disk."""
    fd = open_own(path, os.O_APPEND)
    try:
        # Even if it existed: the process that created it may have been killed before this.
        sync_directory(path.parent)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_own(path: Path, more: int = 0) -> int:
    """Open or create one of our files for writing: a regular file without other links.

    Through a link we could change somebody else's file, or two journals could share one. A parent
    directory may be a link.

    Raises:
        JournalError: It is not a regular file, or has other links.
        OSError: It cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | more
    try:
        fd = os.open(path, flags, 0o666)
    except OSError as error:
        kind = _other_kind(path)
        if kind is None:
            raise
        raise _not_regular(path, kind) from error
    kind = _other_kind(fd)
    if kind is not None:
        os.close(fd)
        raise _not_regular(path, kind)
    return fd


def open_to_read(path: Path, buffering: int = -1) -> BinaryIO:
    """Open one of our files for reading. A pipe is refused at once.

    Raises:
        JournalError: It is a directory, a pipe, a device, or a link to itself.
        OSError: It cannot be opened.
    """
    # By name: Windows, where a journal is only read, lacks some flags and needs another.
    flags = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
    with _refusing_loops(path):
        fd = os.open(path, sum(getattr(os, name, 0) for name in flags) | os.O_RDONLY)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise _not_regular(path, _kind_of(mode))
    return os.fdopen(fd, "rb", buffering)


def size_of(path: Path) -> int:
    """Return the size of one of our files.

    Raises:
        JournalError: It is a link to itself.
        OSError: It does not exist, or is not accessible.
    """
    with _refusing_loops(path):
        return path.stat().st_size


@contextlib.contextmanager
def _refusing_loops(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_regular(path, "a symbolic link to itself") from error
        raise


_CLOSED = "other code in this process closed the file"


class OwnFile(NamedTuple):
    """A file we opened, by its descriptor. Other code may close it, and reuse the descriptor."""

    fd: int
    device: int
    node: int

    @classmethod
    def of(cls, fd: int) -> "OwnFile":
        """Remember the descriptor's file."""
        status = os.fstat(fd)
        return cls(fd, status.st_dev, status.st_ino)

    def size(self) -> int:
        """Return its size.

        Raises:
            OSError: Other code closed it.
        """
        try:
            status = os.fstat(self.fd)
        except OSError as error:
            raise OSError(error.errno, _CLOSED) from error
        if (status.st_dev, status.st_ino) != (self.device, self.node):  # the descriptor is reused
            raise OSError(errno.EBADF, _CLOSED)
        return status.st_size

    def close(self) -> None:
        """Close it, unless other code has."""
        with contextlib.suppress(OSError):
            self.size()
            os.close(self.fd)


def read_whole(path: Path) -> bytes:
    """Return the content of one of our files. Raises as `open_to_read` does."""
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


def _other_kind(file: Path | int) -> str | None:
    """Return the kind of a path; None for a regular file with one link, or a missing one."""
    try:
        status = os.fstat(file) if isinstance(file, int) else file.lstat()
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        return f"a file with {status.st_nlink} names (hard links)" if status.st_nlink > 1 else None
    return _kind_of(status.st_mode)


def _kind_of(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "not a file")


def _not_regular(path: Path, kind: str) -> JournalError:
    return JournalError(
        f"{path}: this is {kind}; the files of a run must be regular files without links",
        hint="replace it with a copy of the file, or remove it; nothing was changed",
    )


def make_directory(path: Path) -> None:
    """Create a directory and its parents, each synced into its parent."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
        return
    # The process that created it may have been killed before this. The parent may be unreadable.
    with contextlib.suppress(PermissionError):
        sync_directory(path.parent)


def write_all(fd: int, parts: Iterable[bytes]) -> None:
    """Write all the parts, at most a megabyte at a time.

    Raises:
        OSError: The write failed; some of the bytes may be in the file.
    """
    for chunk in _chunks(parts):
        left: Parts = chunk
        while left:
            written = os.writev(fd, left)  # Python retries after EINTR
            if written == 0 and any(left):
                raise OSError(errno.EIO, "the system wrote nothing and gave no reason")
            left = _rest(left, written)


def _chunks(parts: Iterable[bytes]) -> Iterator[Parts]:
    """Yield the parts in groups, each for one system call."""
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
    """Return once the file's bytes and size are on disk.

    Raises:
        OSError: They may not be. Never retry: the system has marked the pages clean.
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
    """Return once the names in a directory are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # not supported by the file system
            raise
    finally:
        os.close(fd)


def replace_file(path: Path, content: Iterable[bytes], *, sync: bool = True) -> None:
    """Replace a file atomically: readers see the old content or the new one.

    Args:
        path: The file.
        content: Its new bytes, in pieces of any size.
        sync: Return once it is on disk; otherwise a power failure may damage it.

    Raises:
        OSError: It could not be written; the old file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by a killed process, or a link
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            write_all(fd, content)
            if sync:
                sync_file(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file. Raises as `open_to_read` does."""
    together = blake2b(digest_size=16)
    with open_to_read(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            together.update(chunk)
    return together.hexdigest()


def file_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre"}
_NETWORK |= {"9p", "beegfs", "gpfs", "vboxsf", "prl_fs", "virtiofs", "ncpfs"}
# These are local disks; any other FUSE is unknown.
_LOCAL_FUSE = {"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.bindfs", "fuse.lxcfs"}


def file_system_risk(path: Path, mounts: str | None = None) -> str | None:
    """Return why locks or appends may be unreliable at `path`; None: no known reason.

    Known on Linux only.

    Args:
        path: A file or directory that exists.
        mounts: The content of `mountinfo`; None: this process's.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    kind = _file_system_at(path.resolve(), mounts)
    if kind in _NETWORK:
        return f"{path} is on {kind}: locks and appends over a network are not always reliable"
    if kind.startswith("fuse") and kind not in _LOCAL_FUSE:
        return f"{path} is on {kind}: an object store behind FUSE may lose or reorder appends"
    return None


def _file_system_at(path: Path, mounts: str) -> str:
    best, kind, below = -1, "", f"{path}/"
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if len(point) >= best and below.startswith(point.rstrip("/") + "/"):
            best, kind = len(point), after.split(" ")[0]
    return kind
