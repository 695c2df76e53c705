cdef class ChannelListener:
    pass
