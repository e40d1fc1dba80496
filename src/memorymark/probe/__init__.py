"""Probes answer one question: what happens at this batch size?"""
