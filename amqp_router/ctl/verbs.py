"""The table of all verbs."""

from __future__ import annotations

from amqp_router.ctl import changes, delayed, lists, moves, node, objects, tokens

VERBS = {
    verb.name: verb
    for verb in sorted(
        (
            *node.VERBS,
            *lists.VERBS,
            *changes.VERBS,
            *objects.VERBS,
            *delayed.VERBS,
            *moves.VERBS,
            *tokens.VERBS,
        ),
        key=lambda verb: verb.name,
    )
}
