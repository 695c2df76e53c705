cimport cython

from amqp_router.channel.aside cimport Aside
from amqp_router.channel.listener cimport ChannelListener
from amqp_router.channel.older cimport OlderDeliveries
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from vhosts.exchanges.router cimport RoutingTable
from vhosts.queues.handle cimport Consumer


cdef class Tags:
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
    cdef public Aside aside
    cdef public unsigned long long deliver_total
    cdef public unsigned long long deliver_no_ack_total
    cdef public unsigned long long get_total
    cdef public unsigned long long get_no_ack_total
    cdef public unsigned long long get_empty_total
    cdef public unsigned long long redeliver_total
    cpdef tell_taps(self, str queue, Message message)
    @cython.locals(tag="unsigned long long", size=Py_ssize_t, index=Py_ssize_t)
    cpdef unsigned long long add(self, Message message, Consumer owner) except? 0
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
    @cython.locals(mask=Py_ssize_t, base="unsigned long long")
    cdef void _advance(self)
