# Compiled types of names.py.

cimport cython

from persistence.memory cimport MemoryBudget

cdef long long _NAMES_BYTES_MAX
cdef long long _NEW_NAMES_BYTES_MAX


cdef class WideNames:
    cdef public bytes exchange
    cdef public list queues
    cdef public list bindings
    cdef public long long durable
    cdef public long long fanout
    cdef public unsigned int id
    cdef public unsigned long long segment
    cpdef bytes payload(self, list queues, list bindings)


cdef class SegmentNames:
    cdef public unsigned long long serial
    cdef MemoryBudget _account
    cdef dict _ids
    cdef unsigned int _next
    cdef long long _bytes
    cdef list _new
    cdef long long _new_bytes
    cpdef begin(self, dict ids, unsigned int count)
    cpdef bint is_full(self) except -1
    cpdef bint is_batch_full(self) except -1
    cpdef unsigned int number_of(self, bytes payload, WideNames wide) except? 4294967295
    @cython.locals(size="long long")
    cdef unsigned int _number(self, bytes payload) except? 4294967295
    cpdef list take_new(self)
