"""The grammar of a kernel name: demangled C++, mangled C++ or a flat generated name, read in one pass.

What is read here is structure only (namespaces, function, the types named in its template arguments);
what any of it means is in `kernel_names` and `kernel_categories`. A name comes out of a file that anybody
may have written, so nothing here recurses on it, and every character is looked at a bounded number of times:
the bracket stack is amortised (a bracket is pushed and popped at most once) and no pattern can backtrack
over more than a few characters.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Types named in one template argument list that are kept; deeper ones never decide what a kernel does.
_MAX_TYPES = 256

# Markers that stand for a bracket group in the outline of a name. `clean` leaves no control character in a
# name, so they cannot come from the name itself.
_ANGLE, _PARENS, _OTHER = "\x01", "\x02", "\x03"
_MARKERS = re.compile("[\x01-\x03]")
_OPENERS = {"(": _PARENS, "[": _OTHER, "{": _OTHER}
# "&" is a parenthesis that only groups: `&(float silu<float>(float const&))`, a function given as argument.
_CLOSES = {")": "(&", "]": "[", "}": "{"}

_BRACKET = re.compile(r"[<>()\[\]{}]")
# Not 2ul or 8u, not a namespace; but thrust's operations are all called `functor`, each in a namespace of its
# own that says which.
_TYPE = re.compile(r"(?<!\w)([A-Za-z_~][\w#]*)(::(?!functor\b))?")
# `operator<(` would open a template argument list that never closes.
_OPERATOR = re.compile(r"operator ?(?:->|<<|>>|<=|>=|<|>)(?=\()")
# Inline and generated namespaces: anonymous ones carry a hash of the source file, CCCL's a version and an
# architecture (CUB_300001_SM_900), TensorRT-LLM's and CCCL's inline ones a version (_v1, _V_300001_SM_900).
_GENERATED_SCOPE = re.compile(
    r"_GLOBAL__N_.*|_INTERNAL_.*|(?:CUB|THRUST)_\d.*|_V_\d.*|_v\d+|_+\d+|const|<unnamed>", re.DOTALL
)
# A memory operation or a fused TensorRT layer is a phrase, not a function.
_PHRASE = re.compile(r"\[?(?:cuda )?mem(?:cpy|set)\b", re.IGNORECASE)
# What a mangled name is cut into: literals, substitutions, template parameters, closures, lengths. Every
# repetition is bounded: hostile runs of one letter must not be searched to their end from each start.
_MANGLED = re.compile(r"L[a-z]n?\d{1,20}E|S[0-9A-Z]{0,3}_|T[0-9A-Z]{0,3}_|E\d{0,4}_|I|E|(\d{1,4})")
_MANGLED_START = re.compile(r"_Z(?:N|L?\d)")


class KernelName(NamedTuple):
    """A kernel name taken apart.

    `scope` are the namespaces (generated ones left out), `function` is the function's own name, `types` the
    class and function names in its template arguments in order of appearance (namespaces, parameter lists and
    lambdas left out), `templated` whether there was such a list at all.
    """

    scope: tuple[str, ...]
    function: str
    types: tuple[str, ...]
    templated: bool


def clean(name: str) -> str:
    """Return the name without control characters, anonymous namespaces and surrounding blanks."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else " " for c in name)
    # nsys writes <unnamed>, c++filt and Kineto write (anonymous namespace).
    name = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return _OPERATOR.sub("operator", name).strip()


def parse(name: str) -> KernelName:
    """Take a kernel name apart, demangled or mangled; every string has an answer.

    Source of the two demangled spellings: nsys (`(int)4`, `<unnamed>`, `[lambda() (instance 1)]`) and
    c++filt (`4`, `(anonymous namespace)`, `{lambda()#1}`); both give the same answer.
    """
    text = clean(name)
    parsed = _parse_demangled(text)
    if not parsed.scope and not parsed.templated:
        demangled = _demangle(parsed.function)
        if demangled is not None:
            return _parse_demangled(demangled)
    return parsed


def _parse_demangled(text: str) -> KernelName:
    outline, groups = _outline(text)
    if _PHRASE.match(text) or " + " in outline:
        return KernelName((), " ".join(_MARKERS.sub("", outline).split()) or text, (), False)
    path, start = _function_path(outline)
    parts = path.split("::")
    function = _MARKERS.sub("", parts[-1]).strip()
    if not function:
        return KernelName((), text, (), False)
    scope = (_MARKERS.sub("", part).strip() for part in parts[:-1])
    kept = tuple(part for part in scope if part and not _GENERATED_SCOPE.fullmatch(part))
    if _ANGLE not in parts[-1]:
        return KernelName(kept, function, (), False)
    # The groups are numbered in the order of their markers in the outline.
    last = outline.count(_ANGLE, 0, start) + path.count(_ANGLE) - 1
    return KernelName(kept, function, tuple(groups[last]), True)


def _outline(text: str) -> tuple[str, list[list[str]]]:
    """Return the name with each outermost bracket group replaced by a marker, and the types in each <>."""
    outline: list[str] = []
    groups: list[list[str]] = []
    stack: list[str] = []
    open_count = dict.fromkeys("<([{&", 0)
    opaque = 0  # open brackets other than < and &: nothing inside them names what the kernel does
    pos = 0

    def emit(end: int) -> None:
        if not stack:
            outline.append(text[pos:end])
        elif not opaque and groups and len(groups[-1]) < _MAX_TYPES:
            groups[-1].extend(m[1] for m in _TYPE.finditer(text, pos, end) if not m[2])

    for match in _BRACKET.finditer(text):
        char, at = match[0], match.start()
        # Inside parentheses < and > may compare; ->, wherever it stands, closes nothing.
        if char in "<>" and (opaque or (char == ">" and text[at - 1 : at] == "-")):
            continue
        if at > pos:
            emit(at)
        pos = at + 1
        if char == "<":
            if not stack:
                outline.append(_ANGLE)
                groups.append([])
        elif char in _OPENERS:
            if not stack:
                outline.append(_OPENERS[char])
            if char == "(" and stack and not opaque and text[at - 1] == "&":
                char = "&"
            else:
                opaque += 1
        else:
            opaque -= _pop(stack, open_count, _CLOSES.get(char, "<"))
            continue
        stack.append(char)
        open_count[char] += 1
    emit(len(text))
    return "".join(outline), groups


def _pop(stack: list[str], open_count: dict[str, int], kinds: str) -> int:
    """Pop up to the innermost bracket of `kinds`; return how many opaque ones went. No such bracket: 0."""
    opaque = 0
    if not any(open_count[kind] for kind in kinds):
        return opaque
    if kinds == "<" and stack[-1] != "<":
        return opaque  # a stray > inside a grouping parenthesis
    while True:
        top = stack.pop()
        open_count[top] -= 1
        opaque += top not in "<&"
        if top in kinds:
            return opaque


def _function_path(outline: str) -> tuple[str, int]:
    """Return the qualified function in an outline, without return type and parameters, and its start."""
    text = outline.rstrip()
    params = text.rfind(_PARENS)
    # The last parameter list is the kernel's own, unless a local name follows it: `f(int)::g<...>`.
    if params >= 0 and "::" not in text[params:]:
        text = text[:params].rstrip()
    if text == outline.rstrip() and not _MARKERS.search(text) and not text.startswith("void "):
        return text, 0
    start = text.rfind(" ") + 1
    return text[start:], start


def _demangle(text: str) -> str | None:
    """Read an Itanium-mangled function as `scope::function<types>`; None when it is not one.

    Profilers leave names mangled that their demangler gives up on (cutlass kernels of several kilobytes), so
    only what `parse` keeps is read: the nested name, and the class names of its template arguments.
    """
    if not _MANGLED_START.match(text):
        return None
    path: list[str] = []
    types: list[str] = []
    in_arguments = False
    pos = 2
    while len(types) < _MAX_TYPES and (match := _MANGLED.search(text, pos)):
        pos = match.end()
        if match[1] is None:
            # The first I opens the function's template arguments, an E before it ends its nested name.
            if match[0] == "E" and path and not in_arguments:
                break
            in_arguments = in_arguments or (match[0] == "I" and bool(path))
            continue
        length = int(match[1])
        identifier = text[pos : pos + length]
        # Enumerators (E0E) look like lengths; no type that matters has fewer than three letters.
        if (in_arguments and length < 3) or len(identifier) < length or not identifier.isidentifier():
            continue
        pos += length
        if not in_arguments:
            path.append(identifier)
            if not text.startswith("_ZN"):
                if text[pos : pos + 1] != "I":  # what follows are the types of its parameters
                    break
                in_arguments = True
        elif not text[pos : pos + 1].isdigit():  # a length right behind it makes it a namespace
            types.append(identifier)
    if not path or path[-1].startswith("_Z"):
        return None
    return "::".join(path) + (f"<{', '.join(types)}>" if types else "")
