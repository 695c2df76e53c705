from vhosts.publishing.ports cimport Run


cdef class Receipts:
    cdef public unsigned long long end
    cdef public object runs  # a deque, for which Cython has no type
    cpdef void wait(self, Run run)
