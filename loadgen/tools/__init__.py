"""The tools that agent programs use: a retriever, a test runner and a document reader."""
