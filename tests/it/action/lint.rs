//! Where the action gets its binary: given, released or built.
