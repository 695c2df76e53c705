cimport cython

from amqp_router.channel.confirms cimport Confirms
from amqp_router.channel.listener cimport ChannelListener
from amqp_router.protocol cimport constants
from amqp_router.protocol cimport flags as bits
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.frames cimport ContentScan
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from persistence.log.routing cimport events
from vhosts.exchanges.route cimport Route, lasting
from vhosts.exchanges.router cimport RouteCache
from vhosts.exchanges.walk cimport Walk
from vhosts.publishing.publisher cimport Publisher
from vhosts.publishing.ports cimport Flow, Listener, Run
from vhosts.queues.handle cimport QueueHandle

cdef unsigned char _MANDATORY_BIT
cdef unsigned int _UNROUTABLE
cdef unsigned int _NOT_TAKEN
cdef unsigned int _WAITS
cdef unsigned int _LATER
cdef int _ANSWER_SHIFT
cdef unsigned int _ODD_MODE
cdef unsigned long long _NO_EXPIRY
cdef unsigned int _SPECIAL


cdef class Inflow(Flow):
    cdef public long long unsynced
    cdef public bint over
    cdef public object resume  # a function of the connection
    cpdef void add(self, long long size)
    cpdef void remove(self, long long size)


cdef class TransactionPort:
    cpdef Py_ssize_t publish(self, Route route, Message message, unsigned int flags) except -1


@cython.final
cdef class Publishing(Listener):
    cdef public unsigned int number
    cdef public RouteCache cache
    cdef public Publisher publisher
    cdef public str user
    cdef public Output out
    cdef public Inflow inflow
    cdef public Confirms confirms
    cdef public bint confirming
    cdef public ChannelListener listener
    cdef public unsigned long long next_sequence
    cdef public bytes last_args
    cdef public Route last_route
    cdef public Walk walk
    cdef public TransactionPort transaction
    cdef public bytes reply_to
    cdef public unsigned long long publish_total
    cdef public unsigned long long return_total
    cdef public unsigned long long drop_total
    @cython.locals(publisher=Publisher, route=Route, units=Py_ssize_t, message=Message, size="long long", flags="unsigned int", sequence="unsigned long long", outcome="unsigned int")
    # The content is bytes, or a tuple of frames.
    cpdef Py_ssize_t publish(self, bytes args, object content, ContentScan scan, unsigned int frame_count) except -1
    @cython.locals(publisher=Publisher, nowhere=Route, rest=Route, units=Py_ssize_t)
    cdef Py_ssize_t _reply_at_once(self, Route route, Message message, unsigned int flags) except -1
    cdef int _answer(self, unsigned long long sequence, unsigned int outcome, long long size) except -1
    cpdef Py_ssize_t unroutable(self, Route route, Message message, unsigned int flags) except -1
    cdef Py_ssize_t _tell_taps(self, Route route, Message message) except -1
    cdef bint _inspect(self, bytes args, bytes properties, ContentScan scan) except -1
    @cython.locals(out=Output, buf=Buf, text=bytes, size=Py_ssize_t)
    cdef void _return(self, Route route, Message message)


@cython.locals(index=Py_ssize_t, queue=QueueHandle, others=list)
cdef list _others(list queues, Message message)
@cython.locals(properties=bytes)
cdef int _address(Message message, bytes reply_to) except -1
@cython.locals(header=bytes)
cdef bytes _properties(object content, Py_ssize_t header_size)  # content: bytes, or a tuple of them
