cimport cython

from amqp_router.channel.consumer cimport ChannelConsumer
from amqp_router.channel.tags cimport Tags
from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from vhosts.queues.handle cimport QueueHandle


cdef int _BY_CONSUMER, _TOGETHER, _GATHERED

cdef long long _slice_of(int kind) except -1


cdef class Delivery(Tags):
    cdef public dict returning
    cdef public unsigned long long ack_total
    cpdef long long ack(self, unsigned long long tag, bint multiple) except -1
    cpdef long long reject(self, unsigned long long tag, bint multiple) except -1
    @cython.locals(before="long long", limit="long long", last="unsigned long long", taken=tuple, index=Py_ssize_t, message=Message, owner=ChannelConsumer)
    cdef long long _settle(self, unsigned long long tag, bint multiple, int kind) except -1
    @cython.locals(limit="long long")
    cpdef bint settle_some(self, unsigned long long last, int kind) except -1
    @cython.locals(done="long long", current="unsigned long long", index=Py_ssize_t, message=Message, owner=ChannelConsumer, run=list)
    cdef long long _settle_range(self, unsigned long long last, long long limit, int kind) except -1
    @cython.locals(count="long long")
    cdef void _settle_run(self, list run, ChannelConsumer owner, int kind)
    @cython.locals(queue=QueueHandle)
    cdef void _settle_taken(self, Message message, ChannelConsumer owner, int kind)
    @cython.locals(before="long long")
    cdef void _give_back(self, ChannelConsumer owner, long long count)
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
