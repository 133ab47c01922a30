package filter

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
)

// environment is what an expression can name.
type environment struct {
	Type    string `expr:"type"`
	Tenant  string `expr:"tenant"`
	Payload any    `expr:"payload"`
	Meter   *meter `expr:"$meter"` // not by people: permit refuses its name
}

var (
	names = map[string]bool{"type": true, "tenant": true, "payload": true}

	// loops are the functions that ask a question about each element of a list.
	loops = map[string]bool{"all": true, "any": true, "none": true, "one": true, "count": true}

	// functions are those that people can call, and which of ours does the work.
	functions = map[string]string{"len": "$len", "lower": "$lower", "upper": "$upper", "trim": "$trim"}

	// operators are those whose cost depends on the values, and which function does the
	// work for them.
	operators = map[string]string{
		"==": "$eq", "!=": "$ne", "<": "$lt", "<=": "$le", ">": "$gt", ">=": "$ge", "in": "$in",
		"contains": "$contains", "startsWith": "$startsWith", "endsWith": "$endsWith", "matches": "$matches", "+": "$add",
	}

	// plain operators cost the same for all values.
	plain = map[string]bool{"&&": true, "and": true, "||": true, "or": true, "-": true, "*": true, "/": true, "%": true, "??": true}
)

// config is that of one compilation: no function of the library's but the loops, and
// nothing is computed in advance.
func config() *conf.Config {
	c := conf.CreateNew()
	for _, option := range append([]expr.Option{
		expr.Env(environment{}), expr.AsBool(), expr.Optimize(false), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.DisableIfOperator(),
		expr.Function("len", callLen, new(func(any) int)),
		expr.Function("lower", callText, new(func(any) string)),
		expr.Function("upper", callText, new(func(any) string)),
		expr.Function("trim", callText, new(func(any) string)),
	}, charged()...) {
		option(c)
	}
	for name := range loops {
		expr.EnableBuiltin(name)(c)
	}
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	return c
}

// permit refuses everything that is not on the lists: what a new version of the library
// brings stays out until somebody knows what it costs.
func permit(node ast.Node) error {
	g := &guard{}
	ast.Walk(&node, g)
	if g.err != nil {
		return g.err
	}
	return nil
}

// guard is a visitor that remembers the first thing that is not allowed. Inner nodes
// come first.
type guard struct{ err *SyntaxError }

func (g *guard) refuse(n ast.Node, format string, args ...any) {
	if at := n.Location().From + 1; g.err == nil || at < g.err.At {
		g.err = &SyntaxError{At: at, Message: fmt.Sprintf(format, args...)}
	}
}

// Visit implements ast.Visitor.
func (g *guard) Visit(node *ast.Node) { //nolint:gocritic // the interface has it so
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode,
		*ast.PointerNode, *ast.PredicateNode, *ast.ConditionalNode, *ast.ChainNode, *ast.MemberNode, *ast.ArrayNode:
	case *ast.IdentifierNode:
		// The names of functions are looked at below.
		if _, isFunction := functions[n.Value]; !names[n.Value] && !isFunction {
			g.refuse(n, "unknown name %s; known: type, payload, tenant", n.Value)
		}
	case *ast.UnaryNode:
		if n.Operator != "not" && n.Operator != "!" && n.Operator != "-" && n.Operator != "+" {
			g.refuse(n, "the operator %s cannot be used here", n.Operator)
		}
	case *ast.BinaryNode:
		if !plain[n.Operator] && operators[n.Operator] == "" {
			g.refuse(n, "the operator %s cannot be used here", n.Operator)
		}
	case *ast.BuiltinNode:
		if !loops[n.Name] {
			g.refuse(n, "the function %s cannot be used here", n.Name)
		} else if len(n.Arguments) != 2 {
			g.refuse(n, "%s needs a list and a condition", n.Name)
		}
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		if !ok || functions[callee.Value] == "" {
			g.refuse(n, "only these functions can be called: all, any, none, one, count, len, lower, upper, trim")
		}
	default:
		g.refuse(n, "this cannot be used in a filter")
	}
}

// charge makes the expression pay: operators become calls that count what they do, and
// every turn of a loop counts the parts that it evaluates.
func charge(node *ast.Node) error { //nolint:gocritic // it replaces the node
	c := &cashier{sizes: make(map[ast.Node]int)}
	ast.Walk(node, c)
	if c.err != nil {
		return c.err
	}
	return nil
}

type cashier struct {
	sizes map[ast.Node]int // parts below and with a node
	err   *SyntaxError
}

// Visit implements ast.Visitor.
func (c *cashier) Visit(node *ast.Node) { //nolint:gocritic // the interface has it so
	n := *node
	size := 1
	for _, child := range childrenOf(n) {
		size += c.sizes[child]
	}
	switch n := n.(type) {
	case *ast.BinaryNode:
		if fn := operators[n.Operator]; fn != "" {
			right := n.Right
			if n.Operator == "matches" {
				right = c.pattern(right)
			}
			ast.Patch(node, call(fn, n.Left, right))
		}
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok && functions[callee.Value] != "" {
			ast.Patch(node, call(functions[callee.Value], n.Arguments...))
		}
	case *ast.PredicateNode:
		step := call("$step", &ast.IntegerNode{Value: 1 + size/4})
		n.Node = &ast.BinaryNode{Operator: "&&", Left: step, Right: n.Node}
	}
	c.sizes[*node] = size
}

func call(fn string, args ...ast.Node) ast.Node {
	return &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: fn},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: "$meter"}}, args...),
	}
}

func childrenOf(n ast.Node) []ast.Node {
	switch n := n.(type) {
	case *ast.UnaryNode:
		return []ast.Node{n.Node}
	case *ast.BinaryNode:
		return []ast.Node{n.Left, n.Right}
	case *ast.ChainNode:
		return []ast.Node{n.Node}
	case *ast.MemberNode:
		return []ast.Node{n.Node, n.Property}
	case *ast.CallNode:
		return n.Arguments
	case *ast.BuiltinNode:
		return n.Arguments
	case *ast.PredicateNode:
		return []ast.Node{n.Node}
	case *ast.ConditionalNode:
		return []ast.Node{n.Cond, n.Exp1, n.Exp2}
	case *ast.ArrayNode:
		return n.Nodes
	default:
		return nil
	}
}

// maxInstructions bounds a pattern: what matching costs grows with it and with the text.
const maxInstructions = 500

// pattern compiles the right side of matches.
func (c *cashier) pattern(n ast.Node) ast.Node {
	refuse := func(message string) ast.Node {
		if c.err == nil {
			c.err = &SyntaxError{At: n.Location().From + 1, Message: message}
		}
		return n
	}
	text, ok := n.(*ast.StringNode)
	if !ok {
		return refuse("the pattern of matches must be a text in quotes")
	}
	re, err := syntax.Parse(text.Value, syntax.Perl)
	if err != nil {
		return refuse(err.Error())
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return refuse(err.Error())
	}
	if len(program.Inst) > maxInstructions {
		return refuse("the pattern is too large")
	}
	compiled, err := regexp.Compile(text.Value)
	if err != nil {
		return refuse(err.Error())
	}
	return &ast.ConstantNode{Value: &pattern{compiled, len(program.Inst)}}
}
