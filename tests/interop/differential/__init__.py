"""The same random operations on our broker and on RabbitMQ; after each, both must have answered alike.

``python -m tests.interop.differential --seeds 20`` starts both. Each seed is a walk in a virtual host of its
own, and ``--walkers`` says how many walk at a time. Two connections of two channels each declare, bind,
publish, consume, get, acknowledge, commit and err on classic and quorum queues of every kind and some
exchanges, under policies of users and of the operator that come and go. Several consumers share a queue, with
priorities and prefetch limits. Some messages ask for a direct reply and get one. The run ends with a table of
how often which method, field, argument and policy key was used. Now and then they do what no client should,
with methods, contents and frames that are wrong. Compared are all frames that arrive: methods with all
fields, deliveries with tags, flags, properties and bodies, and what is confirmed.

Dead letters of two queues that end in a third may come in either order: in RabbitMQ each queue is a process,
and each sends its letters itself. ``python -m tests.interop.differential.letters`` shows both orders on
RabbitMQ alone. If nothing else differs, and the letters of each queue are in order, the walk goes on with
fresh queues. So it does if several consumers of one channel get what returns to a quorum queue in another
order: RabbitMQ gives each consumer all of its messages, in the order of the tags, and this broker keeps the
queue's order. And if a transaction fails that returned messages: in RabbitMQ the channel's own consumers get
them once more, though it is closed.

``arguments`` compares wrong arguments, each with values of every type.

What the line of a seed says:

    alike       Both answered the same at each step.
    race        They did not, but RabbitMQ does not answer the same each time either: the same steps were
                taken again on RabbitMQ beside itself. All frames of ours came from RabbitMQ, too.
    documented  A difference that docs/compatibility.md lists, under the title that follows. The same walk
                was taken again without it, and was alike each time.
    different   Nobody has explained it. The last steps are printed, and what each broker answered.

For instance

    seed 7: 95 steps, race: RabbitMQ answered otherwise in 3 of 10 repetitions, in 2 as here

means that step 95 was answered differently. RabbitMQ took the walk ten times more: in three it did not answer
as at first, and two of these answers were that of our broker. "In 2 orders of what came here in another one"
means that none was, but that RabbitMQ's were the same messages, and not always in the same order. The exit
code is 1 if a seed is different, or if our broker has logged a traceback, and else 0. `explaining` says how
this is found out.

Left out is what RabbitMQ itself leaves to chance or where we differ on purpose:

- consumers of several queues on one channel: which delivery gets which tag is a race between RabbitMQ's
  processes;
- a connection that the client ends while two of its channels consume from one queue: the channel that
  RabbitMQ ends last may still get what the other had. After a wrong frame that is a race, too;
- what another channel sees before connection.close of what the failed channel had by basic.get or of a quorum
  queue, see `comparing.drop_last_deliveries`;
- several bindings of a hash exchange: the hash is another one;
- if-unused and if-empty for a quorum queue, which RabbitMQ refuses, and its ``reject-publish``, which lets
  some messages more in;
- what returns to a quorum queue without a delivery limit by nack, reject or recover: in RabbitMQ it goes to
  the end. With a limit the walks do it;
- the expiry of a quorum queue, at which RabbitMQ looks every five seconds;
- a consumer with a tag of an earlier one that still has unsettled messages of its queue: RabbitMQ answers 541
  if that is a quorum queue;
- a consumer with the tag of its channel's consumer of direct replies: RabbitMQ takes both;
- ``basic.get`` behind publishes to a quorum queue in one write, which it may overtake in RabbitMQ;
- channel-wide prefetch: RabbitMQ counts gets into it, and suspends consumers without acknowledgement;
- publishes in a transaction to the exchange with a history: RabbitMQ keeps them there without a commit;
- keys of ``BCC`` in that history, which we forget;
- many messages at once for a queue with priorities and a consumer, from that history or in one write: we
  deliver those of a turn by priority, RabbitMQ as they come;
- the order of ``x-death`` behind its first entry: RabbitMQ reverses it with each death.

What a rare seed still shows: a letter for a full queue that refuses is sent again later here, also to a queue
that was bound meanwhile. That is called documented. Two others are not told from unexplained ones yet, though
docs/compatibility.md has them. A message with a time to live before one without, in a queue with priorities,
expires here and stays in RabbitMQ. When a channel ends that had messages of several queues, they return here
in the order of the queues' names, and then the letters go out that this causes. RabbitMQ's classic queues
that it consumes from return theirs one after the other, by the numbers of their processes, each with its
letters, and all other queues later and by themselves.
"""
