"""Which variants does the `matrix` of an eval.yml describe?

Each of its keys is a path of the file, as in `--set`, with a list of values. Every combination is a
variant: the same file with these values set, and its own run. A variant is named like its run's
directory, short enough to read: `prompt=short` for `prompts/short.txt`. Values with the same short
name get a digest. A variant with a run keeps the name of its directory (`cli/matrix.py`), so that
adding or removing a value does not move the other runs.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from math import isfinite, prod
from typing import Any, NamedTuple

from limpet.config.environment import shown
from limpet.config.errors import Findings, KeyPath, Location, Tree, refuse
from limpet.config.yaml_file import read_scalar
from limpet.secrets.in_configs import masked
from limpet.secrets.known import is_secret_key
from limpet.text import hint_near, one_line, quoted

MATRIX = "matrix"
_MOST = 500
_LONGEST_VALUE, _LONGEST_NAME = 40, 150
_ENDING = re.compile(r"(?<=.)\.[A-Za-z]\w{0,4}$")
"""How the name of a file ends: `.txt`, but not the `.1` of a model."""
_FIXED = {
    "name": "the variants share one name",
    "run": "each variant has its own directory inside the matrix's",
    "env_file": "the environment is the same for all variants",
    "secrets": "the secrets are the same for all variants",
    MATRIX: "a matrix cannot vary itself",
}


class Variant(NamedTuple):
    """One combination of values.

    Attributes:
        name: The name of its run's directory.
        values: Each value by its full path, as written in the file.
    """

    name: str
    values: Mapping[str, Any]

    @property
    def shown(self) -> dict[str, str]:
        """Its values as one line each, without secrets, by path."""
        return {path: value_text(masked(value)) for path, value in self.values.items()}


class Matrix(NamedTuple):
    """The variants of a file, in order: the last path varies fastest.

    Attributes:
        labels: The short name of each path: its last part, or more where two would be equal.
        variants: The variants.
    """

    labels: Mapping[str, str]
    variants: Sequence[Variant]

    def named(self, there: Mapping[str, Mapping[str, Any]]) -> "Matrix":
        """Return the same variants, each named like its run; new ones get unused names.

        Args:
            there: The values of each existing run, without secrets, by its name.
        """
        names = {_key(values): name for name, values in there.items()}
        taken = set(map(str.casefold, there))
        variants = []
        for variant in self.variants:
            name = names.get(_key(masked(dict(variant.values))))
            if name is None and variant.name.casefold() in taken:
                name = f"{variant.name}-{_digest(variant.values)}"
            variants.append(variant._replace(name=name or variant.name))
        return self._replace(variants=variants)

    def chosen(self, texts: Sequence[str]) -> list[Variant]:
        """Return the variants that `--only` selects; all if it is not given.

        Several values of one path select more variants, values of different paths fewer.

        Raises:
            ConfigError: A path or value is not in the matrix, or nothing is left.
        """
        names = {variant.name for variant in self.variants}
        whole = {text for text in texts if text in names}
        wanted: dict[str, list[str]] = {}
        for text in texts:
            if text not in whole:
                path, value = self._choice(text)
                wanted.setdefault(path, []).append(_key(value))

        def fits(variant: Variant) -> bool:
            if variant.name in whole or not wanted:
                return variant.name in whole or not whole
            return all(_key(variant.values[path]) in keys for path, keys in wanted.items())

        return list(filter(fits, self.variants))

    def _choice(self, text: str) -> tuple[str, Any]:
        location = Location(f"--only {one_line(text)}")
        name, equals, value = text.partition("=")
        if not equals:
            path, label = next(iter(self.labels.items()))
            example = one_line(value_text(self.variants[0].values[path]))
            refuse(location, "must be NAME=VALUE", f"for example --only {label}={example}")
        path = self._path(name.strip(), location)
        values = list({_key(v.values[path]): v.values[path] for v in self.variants}.values())
        for candidate in values:
            if value == value_text(candidate) or _key(read_scalar(value)) == _key(candidate):
                return path, candidate
        texts = list(map(value_text, values))
        hint = hint_near(value, texts) or f"its values: {', '.join(map(one_line, texts[:10]))}"
        return refuse(location, f"{self.labels[path]} has no value {quoted(value)}", hint)

    def _path(self, name: str, location: Location) -> str:
        paths = [path for path in self.labels if f".{path}".endswith(f".{name}")]
        if not paths:
            known = [*self.labels.values(), *self.labels]
            hint = hint_near(name, known) or f"the matrix varies {', '.join(self.labels)}"
            refuse(location, f"the matrix does not vary {quoted(name)}", hint)
        if len(paths) > 1 and name not in paths:
            text = f"{quoted(name)} is the end of {' and '.join(paths)}"
            refuse(location, text, "name one of them")
        return name if name in paths else paths[0]


def _key(value: Any) -> str:
    """Return a string that differs for values that differ: 1, 1.0, '1' and true all do."""
    return json.dumps(value, sort_keys=True)


def value_text(value: Any) -> str:
    """Return a value as a person would write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- reading it ---------------------------------------------------------------------------------


def matrix_of(tree: Tree, set_paths: Iterable[str] = ()) -> Matrix | None:
    """Return the matrix of a file; None if it has none.

    Args:
        tree: The content of the file.
        set_paths: The paths that `--set` sets: they must not be in the matrix, too.

    Raises:
        ConfigError: Something is wrong with the matrix.
    """
    axes = tree.data.get(MATRIX)
    if axes is None:
        return None
    findings = Findings(tree)
    if not isinstance(axes, dict) or not axes:
        hint = "for example matrix: {workflow.args.model: [a, b]}"
        findings.add((MATRIX,), f"must map paths to lists of values, not {shown(axes)}", hint)
    else:
        _check_axes(axes, findings)
        _check_set(axes, set_paths, findings)
    findings.raise_any()
    labels = _labels(list(axes))
    combinations = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    names = _names(labels, axes, combinations)
    variants = [Variant(*pair) for pair in zip(names, combinations, strict=True)]
    return Matrix(labels, variants)


def _check_axes(axes: Mapping[str, Any], findings: Findings) -> None:
    for path, values in axes.items():
        _check_path(path, axes, findings)
        _check_values((MATRIX, path), values, findings)
    lists = [values for values in axes.values() if isinstance(values, list)]
    if (many := prod(map(len, lists))) > _MOST:
        hint = "split it into several files, or leave values out"
        findings.add((MATRIX,), f"has {many:,} variants, more than {_MOST}", hint)


def _check_path(path: str, axes: Mapping[str, Any], findings: Findings) -> None:
    parts = path.split(".")
    if not all(part and part == part.strip() for part in parts):
        hint = "for example workflow.args.model"
        findings.add_key((MATRIX, path), f"matrix: {quoted(path)} is not a path", hint)
    elif parts[0] in _FIXED:
        findings.add_key((MATRIX, path), f"matrix: cannot vary {path}: {_FIXED[parts[0]]}")
    elif any(map(is_secret_key, parts)) or _is_key(parts):
        why = "it is named like a secret, and secrets do not change answers"
        findings.add_key((MATRIX, path), f"matrix: cannot vary {path}: {why}")
    for other in axes:
        if path.startswith(f"{other}."):
            text = f"matrix: {path} is inside {other}, which varies as well"
            findings.add_key((MATRIX, path), text, "keep one of them")


def _is_key(parts: Sequence[str]) -> bool:
    """Return whether a path is that of a model's key."""
    return parts == ["workflow", "key"] or (parts[0] == "models" and parts[2:] == ["key"])


def _check_values(at: KeyPath, values: Any, findings: Findings) -> None:
    if not isinstance(values, list):
        hint = f"for example [{one_line(value_text(values))}]"
        if isinstance(values, dict):
            hint = f"write the full path as the key: {at[-1]}.{next(iter(values), '…')}: […]"
        return findings.add(at, f"must be a list of values, not {shown(values)}", hint)
    if not values:
        findings.add(at, "must not be empty: there would be no variant", "leave the key out")
    seen: dict[str, int] = {}
    for number, value in enumerate(values):
        if isinstance(value, float) and not isfinite(value):
            findings.add((*at, number), f"must be a finite number, not {shown(value)}")
        elif (first := seen.setdefault(_key(value), number)) != number:
            findings.add((*at, number), f"{shown(value)} appears twice: also as value {first + 1}")
    return None


def _check_set(axes: Mapping[str, Any], set_paths: Iterable[str], findings: Findings) -> None:
    for given in set_paths:
        for path in axes:
            if f"{given}.".startswith(f"{path}."):
                hint = f"choose values with --only {path}=…, or drop the matrix: --set matrix=null"
                findings.add_key((MATRIX, path), f"matrix: --set and the matrix set {given}", hint)


# ---- names --------------------------------------------------------------------------------------


def _labels(paths: Sequence[str]) -> dict[str, str]:
    """Return the shortest end of each path that is unique."""
    ends = Counter(end for path in paths for end in _ends(path))
    return {path: next((end for end in _ends(path) if ends[end] == 1), path) for path in paths}


def _ends(path: str) -> Iterator[str]:
    parts = path.split(".")
    for start in range(len(parts) - 1, -1, -1):
        yield ".".join(parts[start:])


def _names(
    labels: Mapping[str, str],
    axes: Mapping[str, Sequence[Any]],
    combinations: Iterable[Mapping[str, Any]],
) -> Iterator[str]:
    parts = {
        (path, _key(value)): part
        for path, values in axes.items()
        for value, part in zip(values, _directory_parts(values), strict=True)
    }
    for values in combinations:
        pairs = [f"{_shell_safe(labels[p])}={parts[p, _key(v)]}" for p, v in values.items()]
        name = ",".join(pairs)
        is_long = len(name.encode()) > _LONGEST_NAME
        yield f"{_shortened(name, _LONGEST_NAME - 20)}-{_digest(values)}" if is_long else name


def _directory_parts(values: Sequence[Any]) -> list[str]:
    """Return each value as part of a directory's name.

    Values with the same part get a digest, as does a value without a readable part.
    """
    safe = [_shell_safe(_short(value)) for value in values]
    alike = Counter(map(str.casefold, safe))
    return [
        part if part and alike[part.casefold()] == 1 else f"{part}-{_digest(value)}".lstrip("-")
        for value, part in zip(values, safe, strict=True)
    ]


def _short(value: Any) -> str:
    """Return a value as a short string: for a path, the name of the file."""
    if isinstance(value, (dict, list)):
        return ""
    folder, slash, name = value_text(value).rpartition("/")
    return _ENDING.sub("", name) if slash and folder else value_text(value)


def _shell_safe(text: str) -> str:
    """Return a string with only characters that need no quotes in a shell."""
    safe = str(masked(text))
    kept = "".join(char if char.isalnum() or char in "._+-" else " " for char in safe)
    return _shortened("-".join(kept.split()), _LONGEST_VALUE).strip("-.")


def _shortened(text: str, most_bytes: int) -> str:
    return text.encode()[:most_bytes].decode(errors="ignore")


def _digest(value: Any) -> str:
    return blake2b(_key(value).encode(errors="surrogatepass"), digest_size=4).hexdigest()
