"""A look at code never raises, and never runs code of the user's."""

import importlib
import sys
import textwrap

import pytest

from limpet.fingerprints.identity import identity_of

RAN = "import builtins\ndef ran(*given, **named):\n    builtins.ran_in_a_look.append(given)\n"

STRANGE = {
    "answers to every name": """
        class Proxy:
            def __getattr__(self, name): ran(name); return self
        it = Proxy()
    """,
    "is asked for every name": """
        class Proxy:
            def __getattribute__(self, name): ran(name); raise RuntimeError(name)
        it = Proxy()
    """,
    "says that it is of another class": """
        class Proxy:
            @property
            def __class__(self): ran(); raise RuntimeError
            @property
            def __dict__(self): ran(); raise RuntimeError
            @property
            def __module__(self): ran(); raise RuntimeError
        it = Proxy()
    """,
    "has neither truth nor equality nor a hash": """
        class Odd:
            def __bool__(self): ran(); raise RuntimeError
            def __eq__(self, other): ran(); raise RuntimeError
            __hash__ = None
            def __len__(self): ran(); raise RuntimeError
            def __iter__(self): ran(); raise RuntimeError
            def __repr__(self): ran(); raise RuntimeError
            def __str__(self): ran(); raise RuntimeError
            def __reduce_ex__(self, protocol): ran(); raise RuntimeError
            def __getstate__(self): ran(); raise RuntimeError
        it = [Odd(), {"a": Odd()}, (Odd(),)]
    """,
    "is a class whose class is odd": """
        class Meta(type):
            def __getattribute__(cls, name): ran(name); raise RuntimeError(name)
            def __eq__(cls, other): ran(); raise RuntimeError
            def __hash__(cls): ran(); raise RuntimeError
            def __instancecheck__(cls, other): ran(); raise RuntimeError
            def __subclasscheck__(cls, other): ran(); raise RuntimeError
            def __repr__(cls): ran(); raise RuntimeError
        class Odd(metaclass=Meta):
            pass
        it = Odd
    """,
    "is an instance of such a class": """
        class Meta(type):
            def __getattribute__(cls, name):
                ran(name)
                return type.__getattribute__(cls, name)
            def __eq__(cls, other): ran(); raise RuntimeError
            def __hash__(cls): ran(); raise RuntimeError
        class Odd(metaclass=Meta):
            def __init__(self): self.x = 1
        made = object.__new__(Odd)
        it = [made]
        ran = ran
    """,
    "has slots with other things in their place": """
        class Slots:
            __slots__ = ("a", "b")
        Slots.a = property(lambda self: ran())
        class Gone:
            __slots__ = iter(("a", "b"))
        class Texts(dict):
            __slots__ = {"a": "what it is"}
        it = [Slots(), Gone(), Texts()]
    """,
    "is a container with ways of its own": """
        import collections, io, enum
        class L(list):
            def __iter__(self): ran(); raise RuntimeError
            def __len__(self): ran(); raise RuntimeError
        class D(dict):
            def items(self): ran(); raise RuntimeError
            def __iter__(self): ran(); raise RuntimeError
        class F(collections.defaultdict):
            default_factory = property(lambda self: ran())
        class S(io.StringIO):
            def getvalue(self): ran(); raise RuntimeError
        class N(str):
            def __repr__(self): ran(); raise RuntimeError
            def __str__(self): ran(); raise RuntimeError
        class I(int):
            def __repr__(self): ran(); raise RuntimeError
        closed = io.StringIO()
        closed.close()
        it = [L([1]), D(a=1), F(list), S("x"), N("x"), I(3), closed]
    """,
    "is a stand-in of the tests": """
        from unittest import mock
        it = [mock.call, mock.call.a.b(1), mock.MagicMock(), mock.Mock(spec=dict), mock.ANY,
              mock.sentinel.x, mock.create_autospec(ran), mock.AsyncMock()]
    """,
    "is a descriptor": """
        class Described:
            def __get__(self, owner, cls): ran(); raise RuntimeError
            def __set_name__(self, owner, name): pass
        class Owner:
            a = Described()
        it = Owner()
    """,
    "computes when asked": """
        import functools
        class Lazy:
            @property
            def a(self): ran(); raise RuntimeError
            @functools.cached_property
            def b(self): ran(); raise RuntimeError
        it = Lazy()
    """,
    "is a proxy of a library's": """
        import weakref, wrapt
        class Target:
            def __getattr__(self, name): ran(name); raise AttributeError(name)
        target = Target()
        it = [weakref.proxy(target), weakref.ref(target), wrapt.ObjectProxy(target)]
    """,
    "is data of a library's": """
        import numpy as np, pandas as pd
        it = [np.array([1, 2]), np.array([object(), 1], dtype=object), pd.DataFrame({"a": [1]}),
              pd.Series([1, 2]), np.float64(3), pd.Timestamp(0), pd.NaT, np.dtype("int8")]
    """,
    "is a module that loads when it is asked": """
        import types, sys
        class Lazy(types.ModuleType):
            def __getattribute__(self, name): ran(name); raise RuntimeError(name)
        it = Lazy("lazy")
    """,
    "has names that are none": """
        class Odd: pass
        Odd.__module__ = 3
        class Other: pass
        Other.__module__ = None
        other = Other()
        other.__module__ = other.__qualname__ = other.__name__ = Odd
        it = [Odd, Odd(), Other, other]
    """,
    "counts on its class to say what it is": """
        import abc
        class Base(abc.ABC):
            @classmethod
            def __subclasshook__(cls, other): ran(); raise RuntimeError
        it = Base
    """,
}


@pytest.fixture
def ran(monkeypatch):
    found = []
    monkeypatch.setattr("builtins.ran_in_a_look", found, raising=False)
    return found


@pytest.mark.parametrize("kind", STRANGE)
def test_an_object_is_survived_and_not_run_that(tmp_path, monkeypatch, ran, kind):
    code = RAN + textwrap.dedent(STRANGE[kind])
    code += "\ndef answer(q):\n    return q, it, it.a.b, it[0]\n"
    (tmp_path / "strange_app.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("strange_app", None)
    app = importlib.import_module("strange_app")
    ran.clear()
    found = identity_of(app.answer)
    assert ran == []
    named = {name.partition(".")[0] for name in {*found.parts, *found.left_out}}
    assert {"answer", "it"} <= named
    assert [why for why in found.left_out.values() if "on reading it" in why] == []
    del sys.modules["strange_app"]
