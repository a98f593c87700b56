from hypothesis import given
from hypothesis import strategies as st

from homarus.sandbox.spec import Access, Backend, Limits, Mount, SandboxSpec

PATHS = st.sampled_from(["/w", "/w/a", "/w/a/b", "/x", "/x/y", "/wide"])
SPECS = st.builds(
    SandboxSpec,
    backend=st.sampled_from(Backend),
    workspace=PATHS,
    access=st.sampled_from(Access),
    network=st.booleans(),
    mounts=st.lists(st.builds(Mount, PATHS, st.booleans()), max_size=3).map(tuple),
    limits=st.builds(Limits, *[st.integers(0, 5)] * 3),
    env=st.lists(st.sampled_from(["A", "B", "C"]), unique=True, max_size=3).map(tuple),
    locked=st.lists(st.sampled_from(["a", "b", "SOUL.md"]), unique=True, max_size=2).map(tuple),
    hidden=st.lists(st.sampled_from(["/h", "/opt/h"]), unique=True, max_size=2).map(tuple),
)


@given(SPECS, SPECS)
def test_a_child_never_gets_more_than_its_parent(parent: SandboxSpec, wish: SandboxSpec) -> None:
    child = parent.narrow(wish)
    assert parent.contains(child)
    for path in ("/w", "/w/a", "/w/a/b", "/w/a/b/c", "/w/SOUL.md", "/w/q", "/x/y", "/x/y/a", "/wide", "/elsewhere"):
        assert parent.can_read(path) or not child.can_read(path)
        assert parent.can_write(path) or not child.can_write(path)
    assert parent.network or not child.network or not parent.enforced


@given(SPECS, SPECS, SPECS)
def test_a_grandchild_never_gets_more_than_its_grandparent(a: SandboxSpec, b: SandboxSpec, c: SandboxSpec) -> None:
    assert a.contains(a.narrow(b).narrow(c))


@given(SPECS)
def test_asking_for_the_same_changes_nothing(spec: SandboxSpec) -> None:
    assert spec.contains(spec)
    if spec.enforced:
        assert spec.narrow(spec).contains(spec)


def test_zero_means_unlimited_and_is_the_widest() -> None:
    assert Limits(0, 5, 9).narrow(Limits(3, 0, 7)) == Limits(3, 5, 7)
    assert Limits(0, 0, 0).narrow(Limits(0, 0, 0)) == Limits(0, 0, 0)


def test_what_the_owner_lends_to_a_run_reaches_its_children_and_nothing_more_does() -> None:
    lent = Mount("/projects/boat", writable=True)
    parent = SandboxSpec(Backend.BWRAP, "/ws", mounts=(Mount("/data"), lent), lent=(lent,))
    child = parent.narrow(SandboxSpec(Backend.BWRAP, "/ws", mounts=(Mount("/data", writable=True), Mount("/else"))))
    assert child.mounts == (Mount("/data"), lent)
    assert child.narrow(SandboxSpec(Backend.BWRAP, "/ws")).mounts == (lent,)
    assert parent.contains(child)
