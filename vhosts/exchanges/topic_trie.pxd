# Compiled types of topic_trie.py.

cimport cython


cdef class Node:
    cdef public dict children
    cdef public Node after_one
    cdef public Node after_any
    cdef public bint is_any
    cdef public dict values
    cdef public unsigned long long mark


cdef class TopicTrie:
    cdef Node _root
    cdef unsigned long long _mark
    @cython.locals(node=Node, word=str)
    cpdef object insert(self, str pattern, object value)
    @cython.locals(words=list, path=list, last=Node, node=Node, index=Py_ssize_t, word=str)
    cpdef object remove(self, str pattern, object value)
    @cython.locals(reached=list, before=list, found=list, node=Node, child=Node, word=str)
    cpdef list match(self, str key)
    cpdef bint is_empty(self) except -1
    @cython.locals(mark="unsigned long long")
    cdef object _reach(self, Node node, list reached)
    cdef Node _next(self, Node node, str word)
    @cython.locals(found=Node, new=Node)
    cdef Node _next_or_new(self, Node node, str word)
    @cython.locals(children=dict)
    cdef object _cut(self, Node node, str word)
    cdef bint _is_bare(self, Node node) except -1


cdef list _words(str key)
