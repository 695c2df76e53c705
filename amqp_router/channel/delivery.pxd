cimport cython

from amqp_router.channel.aside cimport Aside
from amqp_router.channel.listener cimport ChannelListener
from amqp_router.protocol cimport flags
from amqp_router.channel.older cimport OlderDeliveries
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from vhosts.exchanges.router cimport RoutingTable
from vhosts.queues.handle cimport Consumer, Credit, QueueHandle


cdef int _BY_CONSUMER, _TOGETHER, _GATHERED


cdef class ChannelConsumer(Consumer):
    cdef public Delivery delivery
    cdef public bytes prefix
    cdef public bint limited
    cdef public bint counts
    cdef public int is_consumer
    cdef public bint shows_count
    @cython.locals(delivery=Delivery)
    cpdef void deliver(self, Message message)
    @cython.locals(delivery=Delivery, tag="unsigned long long", out=Output, redelivered="unsigned int")
    cpdef void give(self, Message message, Message shows)
    cpdef void cancelled(self)


cdef class Delivery:
    cdef public unsigned int number
    cdef public Py_ssize_t body_payload_max
    cdef public Output out
    cdef public RoutingTable table
    cdef public ChannelListener listener
    cdef public list messages
    cdef public list owners
    cdef public unsigned long long base
    cdef public unsigned long long next_tag
    cdef public OlderDeliveries older
    cdef public long long outstanding
    cdef public dict returning
    cdef public Aside aside
    cdef public unsigned long long deliver_total
    cdef public unsigned long long deliver_no_ack_total
    cdef public unsigned long long get_total
    cdef public unsigned long long get_no_ack_total
    cdef public unsigned long long get_empty_total
    cdef public unsigned long long redeliver_total
    cdef public unsigned long long ack_total
    cpdef tell_taps(self, str queue, Message message)
    @cython.locals(tag="unsigned long long", size=Py_ssize_t, index=Py_ssize_t)
    cpdef unsigned long long add(self, Message message, ChannelConsumer owner) except? 0
    @cython.locals(tag="unsigned long long")
    cpdef void skip_tag(self)
    @cython.locals(size=Py_ssize_t)
    cdef void _make_room(self)
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cdef void _move_lowest(self)
    @cython.locals(tag="unsigned long long", size=Py_ssize_t)
    cdef void _grow(self)
    cpdef void check(self, unsigned long long tag, bint multiple)
    cpdef bint holds(self, unsigned long long tag) except -1
    cpdef long long ack(self, unsigned long long tag, bint multiple) except -1
    cpdef long long reject(self, unsigned long long tag, bint multiple) except -1
    @cython.locals(before="long long", last="unsigned long long", taken=tuple, index=Py_ssize_t, message=Message, owner=ChannelConsumer)
    cdef long long _settle(self, unsigned long long tag, bint multiple, int kind) except -1
    cpdef bint settle_some(self, unsigned long long last, int kind) except -1
    @cython.locals(done="long long", current="unsigned long long", taken=tuple, index=Py_ssize_t, message=Message, owner=ChannelConsumer, run=list)
    cdef long long _settle_range(self, unsigned long long last, int kind) except -1
    @cython.locals(count="long long")
    cdef void _settle_run(self, list run, ChannelConsumer owner, int kind)
    @cython.locals(queue=QueueHandle)
    cdef void _settle_taken(self, Message message, ChannelConsumer owner, int kind)
    @cython.locals(before="long long")
    cdef void _give_back(self, ChannelConsumer owner, long long count)
    @cython.locals(mask=Py_ssize_t, base="unsigned long long")
    cdef void _advance(self)
    @cython.locals(taken=tuple)
    cpdef long long requeue(self, unsigned long long tag, int how) except -1
    @cython.locals(done="long long", taken=tuple)
    cpdef long long requeue_up_to(self, unsigned long long last, long long limit, int how) except -1
    @cython.locals(done="long long", mask=Py_ssize_t, tag="unsigned long long", index=Py_ssize_t, message=Message, owner=ChannelConsumer)
    cdef long long _requeue_range(self, unsigned long long first, unsigned long long last, long long limit, int how) except -1
    @cython.locals(queue=QueueHandle)
    cpdef void requeue_taken(self, Message message, ChannelConsumer owner, int how)
    @cython.locals(done="long long", left="long long", queue=QueueHandle)
    cpdef long long requeue_some(self, unsigned long long last, long long limit, bint whole) except -1
    cpdef void on_cancelled(self, ChannelConsumer consumer)
