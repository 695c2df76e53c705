cimport cython


cdef class LogEpochs:
    cdef public unsigned long current
    cdef public list starts
    cdef public bint is_pending
    cdef public unsigned long long continued_at
    cdef unsigned long _previous
    cdef bytes _boot_id

    @cython.locals(index=Py_ssize_t)
    cpdef unsigned long at(self, unsigned long long offset) except? 0
    cdef bytes start(self, unsigned long long base)
