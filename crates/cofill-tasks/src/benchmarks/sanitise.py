# What the field's evaluation scripts for Dream keep of a model's code. Run by sanitise.rs, which calls `sanitised`.
import ast


def parsed(code):
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def longest(lines):
    """The lines that parse together and are the most, not counting blank ones; of equals, the first."""
    solid = [bool(line.strip()) for line in lines]
    best, most = "", 0
    for start in range(len(lines)):
        if sum(solid[start:]) <= most:
            break
        for end in range(start + 1, len(lines) + 1):
            # Only what would win is worth parsing.
            count = sum(solid[start:end])
            code = "\n".join(lines[start:end])
            if count > most and parsed(code) is not None:
                best, most = code, count
    return best


def names(root):
    """The names and attributes a definition mentions. What stands left of an attribute's dot is not looked at."""
    found, left = set(), [root]
    while left:
        for node in ast.iter_child_nodes(left.pop()):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            else:
                left.append(node)
    return found


def defined(node):
    """The name a statement defines, if it is of a kind that is kept."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.FunctionDef) and any(isinstance(part, ast.Return) for part in ast.walk(node)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def sanitised(text, entry_point):
    text = text.replace("\t", "    ").replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"
    body = ast.parse(longest(text.splitlines()[:100])).body
    # A later definition takes the place, and the position, of an earlier one.
    definitions = {defined(node): node for node in body if defined(node)}
    reached, left = set(), [entry_point]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += names(definitions[name]) if name in definitions else []
    kept = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    kept += [node for name, node in definitions.items() if name in reached]
    return "\n".join(ast.unparse(node) for node in kept)
