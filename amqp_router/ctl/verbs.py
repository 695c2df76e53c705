"""The table of all verbs."""

from __future__ import annotations

from amqp_router.ctl import changes, lists, node, objects

VERBS = {
    verb.name: verb
    for verb in sorted(
        (*node.VERBS, *lists.VERBS, *changes.VERBS, *objects.VERBS), key=lambda verb: verb.name
    )
}
