cdef class Checkpoints:
    cdef public bint is_due
    cdef public unsigned long long offset
    cdef public unsigned long durable
    cdef public bint is_unsure
    cdef unsigned long _last
    cdef list _unremoved
