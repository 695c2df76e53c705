from persistence.plan cimport Plan


cdef class Jobs:
    cdef public object worker  # runs what is not compiled
    cdef public object flusher  # the disk's: a simulated one in tests
    cdef public bint is_flushing
    cdef list _deferred

    cpdef bint can_flush(self) except -1
    cpdef flush(self, Plan plan)
    cpdef int flushed(self, bint wait=*) except? -2
    cpdef resume(self)
