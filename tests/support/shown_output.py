"""Compares the output that a page shows with what a command printed.

Every word and number must be the same. Spaces, line breaks and the length of rules do not count: they depend on the
width of the terminal. A line of ``...`` stands for anything. VARYING lists what depends on the machine and the moment.
"""

import re

ANYTHING = "\0"
VARYING = re.compile(
    r"\b\d+\.\d s\b"  # how long something took
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+]*|\b[A-Z][a-z]{2} +\d+ \d\d:\d\d\b"  # when it was
    r"|(?<![\w.])(?:~|\.\.\.)?/[\w./+-]+"  # a path
    r"|\b\d+\.\d+\.\d+[\w.+]*"  # a version
    r"|(?<=:)\d{4,5}(?=[\s/])"  # a port
)
# Where a training ran on this machine: speeds, times, shares of them, and what its processors suggest.
SPEED = re.compile(r"[\d,.]+(?: (?:tokens|samples)/s| m?s\b| %|x\b| workers)|(?<=num_workers=)[1-9]\d*|[█░]+")
RAN_HERE = re.compile(r"· measured|MemoryMark watched")
# The id of a job, or its first 8 digits.
ID = re.compile(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8}(?:[0-9a-f]{4})?\b")


def ids_if_equal(shown, printed):
    """The ids of jobs in the output shown, each with the one printed instead; None if the two outputs differ."""
    ran_here = RAN_HERE.search(shown) is not None
    wanted = _settled(re.sub(r"(?m)^ *\.\.\.$", ANYTHING, shown), ran_here)
    pattern = ".*?".join(ID.sub(_any_id, re.escape(part.strip())) for part in wanted.split(ANYTHING))
    found = re.fullmatch(pattern, _settled(printed, ran_here), re.DOTALL)
    return None if found is None else dict(zip(ID.findall(wanted), found.groups(), strict=True))


def _any_id(shown):
    return f"([0-9a-f]{{{len(shown[0])}}})"


def _settled(text, ran_here):
    text = re.sub("─+", "─", VARYING.sub("<varies>", " ".join(text.split())))
    return SPEED.sub("<speed>", text) if ran_here else text
