cimport cython

from amqp_router.channel.intake cimport Intake
from amqp_router.channel.publishing cimport Inflow, Publishing, TransactionPort
from amqp_router.protocol.message cimport Message
from vhosts.exchanges.route cimport Route, lasting
from vhosts.publishing.ports cimport Listener
from vhosts.publishing.publisher cimport Publisher
from vhosts.queues.handle cimport QueueHandle

cdef Py_ssize_t _MESSAGE_BYTES
cdef int _OCTETS_SHIFT
cdef Py_ssize_t _BLOCK
cdef unsigned int _UNROUTABLE
cdef unsigned int _REFUSED
cdef unsigned int _WAITS
cdef unsigned int _LATER
cdef Py_ssize_t _SPREAD_SLICE


@cython.final
cdef class Waiting:
    cdef list _blocks
    cdef Py_ssize_t _taken
    cdef readonly Py_ssize_t count
    @cython.locals(block=list)
    cpdef int add(self, tuple publish) except -1
    @cython.locals(block=list, taken=Py_ssize_t, publish=tuple)
    cpdef tuple take(self)


cdef class Gathering(TransactionPort):
    cdef public Intake intake
    cdef public Waiting publishes
    cdef public long long size
    cdef Route _last
    cdef Route _lasting
    cpdef gather_anew(self)
    cpdef int admit(self, long long size) except -1
    cpdef Py_ssize_t publish(self, Route route, Message message, unsigned int flags) except -1


cdef class Committing(Listener):
    cdef public Publishing publishing
    cdef public Inflow inflow
    cdef public Publisher publisher
    cdef unsigned long long _next
    cdef public long long waits
    cdef public bint has_failed
    @cython.locals(spent=Py_ssize_t, released=Py_ssize_t, size=Py_ssize_t, outcome="unsigned int", route=Route, message=Message, flags="unsigned int")
    cpdef Py_ssize_t publish_some(self, Waiting publishes, Py_ssize_t limit, Intake intake, bint stopped) except? -1
    @cython.locals(publisher=Publisher, single=QueueHandle, number="unsigned long long", outcome="unsigned int")
    cdef unsigned int _publish(self, Route route, Message message, unsigned int flags, bint stopped) except? 4294967295
    cpdef void note(self, unsigned int outcome, unsigned long long size)


@cython.locals(index=Py_ssize_t, queue=QueueHandle)
cdef bint _has_deleted(list queues) except -1
