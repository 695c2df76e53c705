cimport cython

from amqp_router.channel.tags cimport Tags
from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from vhosts.queues.handle cimport Consumer, QueueHandle


cdef class ChannelConsumer(Consumer):
    cdef public Tags delivery
    cdef public bytes prefix
    cdef public bint limited
    cdef public bint counts
    cdef public int is_consumer
    cdef public bint shows_count
    @cython.locals(delivery=Tags)
    cpdef void deliver(self, Message message)
    @cython.locals(delivery=Tags, tag="unsigned long long", out=Output, redelivered="unsigned int")
    cpdef void give(self, Message message, Message shows)
    cpdef void cancelled(self)


cpdef ChannelConsumer getter(QueueHandle queue, Tags delivery)
