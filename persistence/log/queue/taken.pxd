cimport cython

from amqp_router.protocol.message cimport Extras

cdef unsigned long long _RUN_MAX


cdef class Taken:
    cdef dict _runs
    cdef bytes _source
    cdef unsigned int _partition
    cdef unsigned int _epoch
    cdef unsigned long long _first
    cdef unsigned long long _end
    cdef long long _time_us
    cdef public dict producers

    cdef note(self, Extras extras, long long now_us)
    cdef _note_source(self, Extras letter, long long now_us)
    cdef _close_run(self)
    cpdef long long memory_bytes(self)
