cimport cython

from amqp_router.channel.consumer cimport ChannelConsumer, getter
from amqp_router.channel.delivery cimport Delivery
from amqp_router.channel.listener cimport ChannelListener
from amqp_router.protocol cimport constants, flags
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from persistence.memory cimport MemoryBudget
from vhosts.queues.destination cimport Asker
from vhosts.queues.handle cimport QueueHandle

cdef int _IDLE
cdef int _CALLING
cdef int _REFUSED
cdef int _WAITING
cdef int _ANSWER_SHIFT
cdef unsigned long _GET_OK
cdef unsigned long _GET_OK_OCTETS
cdef unsigned long _GET_EMPTY
cdef unsigned long _GET_EMPTY_OCTETS


cdef class Asking(Asker):
    cdef public ChannelListener channel
    cdef public unsigned int number
    cdef public Delivery delivery
    cdef public dict getters
    cdef public MemoryBudget account
    cdef public int state
    cdef public int kind
    cdef public bint no_ack
    cdef public bint nowait
    cdef public QueueHandle queue
    cdef public long long rev
    cdef public BaseException error
    cdef public tuple timer
    cdef public list held
    cdef public ChannelConsumer consumer
    @cython.locals(queue=QueueHandle)
    cpdef consume(self, ChannelConsumer consumer, bint nowait)
    cpdef cancel(self, ChannelConsumer consumer, bint nowait)
    @cython.locals(state=int, queue=QueueHandle, delivery=Delivery, out=Output, buf=Buf)
    cpdef bint got(self, Message message, long long left) except -1
    @cython.locals(state=int, channel=ChannelListener, queue=QueueHandle)
    cpdef counted(self, long long ready, long long consumers)
    @cython.locals(state=int, channel=ChannelListener, consumer=ChannelConsumer)
    cpdef bint started(self) except -1
    @cython.locals(state=int, channel=ChannelListener, consumer=ChannelConsumer)
    cpdef ended(self)
    @cython.locals(channel=ChannelListener, delivery=Delivery, owner=ChannelConsumer, out=Output, buf=Buf,
                   content=Message, tag="unsigned long long", redelivered="unsigned int", units="long long")
    cdef _write(self, QueueHandle queue, Message message, long long left)


@cython.locals(asking=Asking, queue=QueueHandle)
cpdef get_message(channel, method)
