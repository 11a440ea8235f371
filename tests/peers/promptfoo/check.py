def get_assert(output, context):
    return output == "Hello"


def score_of(output, context):
    return {"pass": True, "score": len(output) / 10, "reason": "length"}
