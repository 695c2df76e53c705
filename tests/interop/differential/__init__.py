"""The same random operations on our broker and on RabbitMQ; after each, both must have answered alike.

``python -m tests.interop.differential --seeds 20`` starts both. Each seed is a walk in a virtual host of its
own, and ``--walkers`` says how many walk at a time. Two connections of two channels each declare, bind,
publish, consume, get, acknowledge, commit and err on queues of every kind and some exchanges, under policies
that come and go. Now and then they do what no client should, with methods, contents and frames that are
wrong. Compared are all frames that arrive: methods with all fields, deliveries with tags, flags, properties
and bodies, and what is confirmed.

Dead letters of two queues that end in a third may come in either order: in RabbitMQ each queue is a process,
and each sends its letters itself. ``python -m tests.interop.differential.letters`` shows both orders on
RabbitMQ alone. If nothing else differs, and the letters of each queue are in order, the walk goes on with
fresh queues.

Any other difference is looked at again: the same seed runs on two RabbitMQs, ``RACE_RUNS`` times. If they
differ from each other at the same step, RabbitMQ's answer is a race of its processes there. Such a seed is
counted apart. Any other one is ours.

Left out is what RabbitMQ itself leaves to chance or where we differ on purpose:

- several consumers on one channel, or on one queue unless one of them is active and the others wait: their
  order is a race between RabbitMQ's processes;
- channel-wide prefetch: RabbitMQ counts gets into it, and suspends consumers without acknowledgement;
- publishes in a transaction to the exchange with a history: RabbitMQ keeps them there without a commit;
- keys of ``BCC`` in that history, which we forget;
- many messages at once for a queue with priorities and a consumer, from that history or in one write: we
  deliver those of a turn by priority, RabbitMQ as they come;
- the order of ``x-death`` behind its first entry: RabbitMQ reverses it with each death;
- the queue declared last on a channel that is not open: RabbitMQ looks for it before it sees that.

What a rare seed still shows: a letter for a full queue that refuses is sent again later here. Messages that
one ``tx.commit`` returns come in the queue's order here, and in the order of the nacks in RabbitMQ.
"""
