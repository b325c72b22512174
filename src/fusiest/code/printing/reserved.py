"""Names that generated code must not give to anything of a spec: words of the languages, and what the code itself uses."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

_C = """
auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return
short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool true false nullptr alignas
alignof constexpr thread_local static_assert complex imaginary linux unix i386 NULL INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL
FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL math_errhandling
MATH_ERRNO MATH_ERREXCEPT DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS HUGE X_TLOSS
"""
_CPP = """
catch class const_cast delete dynamic_cast explicit export friend mutable namespace new operator private protected public
reinterpret_cast static_cast template this throw try typeid typename using virtual wchar_t and and_eq bitand bitor compl not not_eq
or or_eq xor xor_eq concept requires
"""
_OURS = """
value most least min max x memset memcpy main mapping count trace total unit peak alive hold COUNT ONCE HOLD RELEASE TRACE exp log
sqrt tanh floor ceil sin cos tan asin acos atan sinh cosh asinh acosh atanh fabs rint erf fmod pow T tvm
"""
RESERVED = frozenset([*_C.split(), *_CPP.split(), *_OURS.split(), *keyword.kwlist, *keyword.softkwlist])
_OTHERS = re.compile(r"[^\w.-]", re.ASCII)


def placed(place: Sequence[str]) -> str:
    """Component and dimension for a comment; a dimension may have any name, which must not end the comment.

    >>> placed(("PE", "X")), placed(("PE", "X\\n; f(); \\\\"))
    ('PE.X', 'PE.X___f_____')
    """
    return _OTHERS.sub("_", ".".join(place))


def safe(name: str) -> str:
    """A name that no language takes for its own: as it is, if it can be.

    >>> safe("T0"), safe("Global-Buffer"), safe("__LINE__"), safe("size_t"), safe("for")
    ('T0', 'Global_Buffer', 'v__LINE__', 'size_t_', 'for_')
    """
    name = name.replace("-", "_")
    if name.startswith("_"):
        name = f"v{name}"
    return f"{name}_" if name in RESERVED or name.endswith("_t") or name.startswith("M_") else name
