cdef class Rounds:
    pass
