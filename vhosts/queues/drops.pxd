cimport cython
from cpython.array cimport array

from amqp_router.protocol.message cimport Message
from persistence.memory cimport MemoryBudget
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.destination cimport Burials
from vhosts.queues.standing cimport StandingQueue

cdef Py_ssize_t _HELD_MAX
cdef long long _OFFSET_BYTES
cdef Py_ssize_t _BURY_UNITS
cdef Py_ssize_t _READ_UNITS


cdef class Drops:
    cdef MemoryBudget _account
    cdef list _held
    cdef array _offsets
    cdef list _later
    cdef array _later_offsets
    cdef public Py_ssize_t count
    cdef public bint is_begun
    cdef public bint is_whole
    cpdef bint add(self, Message message) except -1
    cpdef add_later(self, Message message, str reason)
    cpdef close(self)
    cpdef Py_ssize_t bury_all(self, StandingQueue queue, Py_ssize_t done, Py_ssize_t budget) except -1
    @cython.locals(letters=Burials, message=Message, reason=str, offset="unsigned long long")
    cpdef Py_ssize_t bury(self, StandingQueue queue, Py_ssize_t done, Py_ssize_t budget) except -1
    cdef Message _read(self, StandingQueue queue, unsigned long long offset)
    @cython.locals(message=Message)
    cdef _rest(self)
    cpdef forget(self)
