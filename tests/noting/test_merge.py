"""Merging notes: whatever people do on copies of one file, no text is lost and order is no matter.

Drawn: Ann and Bob share note N (revision 0). Ann edits (1), Bob edits without seeing it (2):

    0 -> 1   Ann          merged: 1 and 2 both stand, until someone settles it (3, having seen one)
     `-> 2   Bob
"""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from workbench.noting import note
from workbench.noting.merge import alike, live, merge
from workbench.noting.note import Span

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SPAN = Span(10, 20)


def made(text, **options):
    return note.new("slow", text, SPAN, author="ann", now=NOON, **options)


def edited(old, text, **options):
    return note.change(old, text=text, author="bob", now=NOON, **options)


def texts(notes):
    return sorted(n.text for n, _ in live(notes))


def test_a_later_change_takes_the_place_of_what_it_came_from():
    first = made("why?")
    second = edited(first, "because")
    assert merge([first], [second]) == (second,)
    assert merge([second], [first]) == (second,)


def test_two_changes_of_one_note_both_stand_and_say_so():
    first = made("why?")
    ann, bob = edited(first, "the loader"), edited(first, "the network")
    both = merge([ann], [bob])
    assert texts(both) == ["the loader", "the network"]
    assert {n.text: [o.text for o in others] for n, others in live(both)} == {
        "the loader": ["the network"],
        "the network": ["the loader"],
    }
    settled = merge(both, [note.remove(bob)])
    assert texts(settled) == ["the loader"]
    assert [others for _, others in live(settled)] == [()]
    assert texts(merge(settled, [bob], [first])) == ["the loader"]


def test_the_same_change_on_both_sides_is_one():
    first = made("why?")
    ann, bob = edited(first, "the loader"), edited(first, "the loader")
    both = merge([ann], [bob])
    ((one, others),) = live(both)
    assert others == ()
    third = edited(one, "the disk", seen=alike(both, one))
    assert merge(both, [third]) == (third,)


def test_a_removed_note_stays_removed_and_a_change_without_knowing_of_it_stays_too():
    first = made("why?")
    gone = note.remove(first, now=NOON)
    assert (gone.name, gone.text, gone.target) == ("", "", None)
    assert texts(merge([gone], [first])) == []
    assert texts(merge([gone], [edited(first, "because")])) == ["because"]


def test_of_states_that_claim_to_replace_each_other_none_is_lost():
    first = made("a")
    second = edited(first, "b")
    ring = note.read(note.plain(first) | {"replaces": [second.revision]})
    assert texts(merge([ring], [second])) == ["a", "b"]


COPIES = 3
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["add", "edit", "edit", "remove", "pull"]),
        st.integers(0, COPIES - 1),
        st.integers(0, 100),
    ),
    max_size=25,
)


def played(acts):
    """Play acts on copies of a file; return the copies, and what each revision had seen."""
    copies, seen, said = [()] * COPIES, {}, {}
    for number, (act, k, pick) in enumerate(acts):
        mine = list(live(copies[k]))
        if act == "pull":
            copies[k] = merge(copies[k], copies[pick % COPIES])
            continue
        if act == "add":
            after, before = made(f"text {number}"), set()
        elif mine:
            old = mine[pick % len(mine)][0]
            after = note.remove(old) if act == "remove" else edited(old, f"text {number}")
            before = {old.revision} | seen[old.revision]
        else:
            continue
        seen[after.revision] = before
        said[after.revision] = None if after.removed else after.text
        copies[k] = merge(copies[k], [after])
    return copies, seen, said


def known(copy, seen):
    revisions = {n.revision for n in copy}
    return revisions.union(*(seen[r] for r in revisions)) if revisions else set()


@given(ACTS)
def test_no_text_is_lost_that_nobody_has_seen_and_changed(acts):
    copies, seen, said = played(acts)
    a, b, _ = copies
    every = known(a, seen) | known(b, seen)
    replaced = set().union(*(seen[r] for r in every)) if every else set()
    wanted = sorted(said[r] for r in every - replaced if said[r] is not None)
    assert texts(merge(a, b)) == wanted


@given(ACTS)
def test_order_and_repetition_are_no_matter(acts):
    (a, b, c), _, _ = played(acts)
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(c, a, b)
    assert merge(a, a) == a
    assert merge(merge(a, b), b) == merge(a, b)
